"""Right schedules of every family with one thing changed at random, as listings: what the tests of `check` and of the proof
judge, each in its own way. It knows the registry and the shape of a listing, and no verdict."""

from __future__ import annotations

import random
from functools import cache

from pptrace.formats.listings import listing_of
from pptrace.formats.lowering import lower
from pptrace.listing import Cell, Listing
from pptrace.model import Op, OpKind
from pptrace.schedules.registry import Params, build, entry, names

SIZES = {  # at least two sizes for every family; families with narrower rules have their own
    "dualpipe": [Params(2, 4), Params(4, 8)],
    "dualpipev": [Params(2, 4, 2), Params(4, 8, 2)],
    "chimera": [Params(4, 4), Params(4, 8), Params(2, 4)],
    "wave": [Params(2, 4, 2), Params(3, 5, 4)],
    "zb-v": [Params(2, 4, 2), Params(4, 3, 2)],
    "v-half": [Params(2, 4, 2), Params(4, 8, 2)],
    "v-min": [Params(3, 6, 2), Params(4, 8, 2)],
}
MUTANTS_PER_CASE = 40


def cases():
    for name in names():
        if entry(name).asynchronous:
            continue
        takes_chunks = "chunks" in entry(name).options
        sizes = SIZES.get(name) or [
            Params(2, 4, 2 if takes_chunks else None),
            Params(3, 5, 3 if takes_chunks else None),
        ]
        for params in sizes:
            for with_messages in (False, True):
                yield name, params, with_messages


CASES = list(cases())


LOWERED = ("early", "deferred")
"""Where PyTorch's lowering puts receives; it knows no two-way placement."""


@cache
def schedule_of(name, params):
    return build(name, params)


LOWERED_CASES = [
    (name, params, receives)
    for name, params, with_messages in CASES
    if with_messages and not schedule_of(name, params).placement.bidirectional
    for receives in LOWERED
]
"""The same schedules with the messages of PyTorch's lowering."""


def rows_of(schedule):
    rows = []
    for rank in range(schedule.num_ranks):
        row, at = [], schedule.rank_starts[rank]
        while at < schedule.rank_starts[rank + 1]:
            length = 2 if at in schedule.pairs else 1
            row.append(tuple(schedule.op(at + i) for i in range(length)))
            at += length
        rows.append(row)
    return rows


def with_inline_messages(rows, num_stages, holder):
    """A receive before every op that needs one, a send after every op whose result is needed elsewhere."""
    lowered = []
    for rank, row in enumerate(rows):
        new = []
        for cell in row:
            before, after = [], []
            for s, kind, m, _ in cell:
                if kind is OpKind.F:
                    if s > 0 and holder(s - 1, m) != rank:
                        before.append((Op(s, OpKind.RECV_F, m),))
                    if s < num_stages - 1 and holder(s + 1, m) != rank:
                        after.append((Op(s, OpKind.SEND_F, m),))
                elif kind in (OpKind.B, OpKind.I):
                    if s < num_stages - 1 and holder(s + 1, m) != rank:
                        before.append((Op(s, OpKind.RECV_B, m),))
                    if s > 0 and holder(s - 1, m) != rank:
                        after.append((Op(s, OpKind.SEND_B, m),))
            new += [*before, cell, *after]
        lowered.append(new)
    return lowered


def with_pytorchs_messages(schedule, receives):
    """The sends and receives of our lowering, without its sharding, of which the judges know nothing."""
    rows = lower(listing_of(schedule), receives).rows
    return [[cell.ops for cell in row if cell.ops[0].kind < OpKind.UNSHARD] for row in rows]


def mutated(rows, num_microbatches, rng):
    """(what was done, rows with one change)."""
    rows = [list(row) for row in rows]
    rank = rng.randrange(len(rows))
    row = rows[rank]
    i = rng.randrange(len(row))
    how = rng.choice(
        ["drop", "double", "swap next", "swap next", "swap any", "renumber", "move", "move near", "other rank", "cut"]
    )
    if how == "drop":
        del row[i]
    elif how == "double":
        row.insert(rng.randrange(len(row) + 1), row[i])
    elif how == "swap next" and len(row) > 1:
        i = min(i, len(row) - 2)
        row[i], row[i + 1] = row[i + 1], row[i]
    elif how == "swap any":
        j = rng.randrange(len(row))
        row[i], row[j] = row[j], row[i]
    elif how == "renumber":
        ops = list(row[i])
        k = rng.randrange(len(ops))
        ops[k] = ops[k]._replace(microbatch=rng.randrange(num_microbatches + 2))
        row[i] = tuple(ops)
    elif how == "move":
        row.insert(rng.randrange(len(row)), row.pop(i))
    elif how == "move near":
        cell = row.pop(i)
        row.insert(max(0, min(len(row), i + rng.randint(-3, 3))), cell)
    elif how == "other rank":
        other = rows[rng.randrange(len(rows))]
        other.insert(rng.randrange(len(other) + 1), row.pop(i))
    elif how == "cut":
        del row[len(row) - rng.randint(1, min(len(row), 6)) :]
    return f"{how} at rank {rank}, cell {i}", rows


def listing(rows):
    return Listing(
        tuple(
            tuple(Cell(ops, ";".join(map(str, ops)), line, column) for column, ops in enumerate(row, 1))
            for line, row in enumerate(rows, 1)
        )
    )


@cache
def holders_of(schedule):
    """(stage, microbatch) to the rank that may run it; -1 for what is not there."""
    placement, num = schedule.placement, schedule.num_microbatches
    ranks = {(s, m): placement.rank_of(s, m, num) for s in range(schedule.num_stages) for m in range(num)}
    return lambda s, m: ranks.get((s, m), -1)


def mutants(name, params, with_messages):
    """(what was done, the rows) of one case: first the right schedule, then its mutants. `with_messages`: False, True (inline)
    or one of LOWERED."""
    schedule = schedule_of(name, params)
    rows = rows_of(schedule)
    if with_messages in LOWERED:
        rows = with_pytorchs_messages(schedule, with_messages)
    elif with_messages:
        rows = with_inline_messages(rows, schedule.num_stages, holders_of(schedule))
    rng = random.Random(f"{name} {params} {with_messages}")
    yield "nothing", rows
    for _ in range(MUTANTS_PER_CASE):
        yield mutated(rows, schedule.num_microbatches, rng)
