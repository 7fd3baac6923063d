"""A schedule as somebody wrote it: per rank the cells in order, with their places, and nothing checked; and what most of its
ops say of its sizes, for those who have to go on where some do not fit.

Readers of schedule files make listings; the checker reads them; `formats` turns them into a Schedule where they hold one.
A listing may hold lowered ops (messages, sharding), doubled or missing ops, stages on two ranks: that is what it is for.
"""

from __future__ import annotations

from collections import Counter
from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple

from pptrace.errors import LimitError
from pptrace.model import OpKind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pptrace.model import Op

MAX_TABLE = 4_000_000
"""Largest kinds x stages x microbatches x steps for which tables are made."""


class Cell(NamedTuple):
    """One written cell: one op, or the two of an overlapped pair, as `text` says, at 1-based `line` and `column`."""

    ops: tuple[Op, ...]
    text: str
    line: int = 0
    column: int = 0

    @property
    def is_pair(self) -> bool:
        return len(self.ops) == 2


class Listing(NamedTuple):
    """Per rank, its cells in order (empty cells left out).

    `slots` holds, for grids in which a column is a time step, the column of every cell (same shape as `rows`), else it is
    empty. `notes` are sentences for the header: what the reader decided (what the letter B means, what it left out).
    `blanks` holds, per rank, which places of its written row were empty (0-based, cells counted too), so that a file can be
    written again as it was; it says nothing about time, and is empty where no cell was.
    """

    rows: tuple[tuple[Cell, ...], ...]
    source: str = ""
    slots: tuple[tuple[int, ...], ...] = ()
    notes: tuple[str, ...] = ()
    blanks: tuple[tuple[int, ...], ...] = ()


def likely_sizes(ops: list[Op], wanted: int | None) -> tuple[tuple[int, int, int], list[int] | None]:
    """(S, M, steps) as most ops say, and the codes (`(kind * S + stage) * M + microbatch`) where every op fits them.

    M is `wanted` where some stage agrees, else the number of microbatches that most stages agree on (the larger one at a
    tie). Stages beyond the last one that runs at least half of them, and the next ones that run more than one op, are no
    stages. Raises `LimitError` for absurdly large numbers.
    """
    if not ops:
        return (1, 1, 1), []
    stages = list(map(itemgetter(0), ops))
    kinds = list(map(int, map(itemgetter(1), ops)))
    numbers = [number or 0 for number in map(itemgetter(2), ops)]
    num_steps = max(map(itemgetter(3), ops)) + 1
    span, most = max(max(stages), 0) + 1, max(max(numbers), 0) + 1
    lowest = min(min(stages), min(numbers), min(map(itemgetter(3), ops)))
    packed = [(kind * span + stage) * most + n for kind, stage, n in zip(kinds, stages, numbers, strict=True)]
    counted = (
        packed if lowest >= 0 else [row for row, op in zip(packed, ops, strict=True) if min(op[0], op[2] or 0) >= 0]
    )
    distinct = Counter(map(most.__rfloordiv__, set(counted)))
    work = {divmod(row, span): count for row, count in distinct.items() if row // span <= OpKind.I}
    if not work:  # nothing but messages or updates: take the numbers as they are
        work = {divmod(row, span): count for row, count in distinct.items()}
    backwards: Counter[int] = Counter()
    forwards: Counter[int] = Counter()
    for (kind, stage), count in work.items():
        (forwards if kind == OpKind.F else backwards)[stage] += count
    votes = Counter([*forwards.values(), *backwards.values()])
    num = wanted if wanted is not None and wanted in votes else max(votes, key=lambda n: (votes[n], n), default=1)
    real = [
        stage for stage in {*forwards, *backwards} if 2 * max(forwards[stage], backwards[stage]) >= num and stage >= 0
    ]
    within = [stage for count, stage in enumerate(sorted(real), 1) if stage < 2 * count]  # no more gaps than stages
    num_stages = max(within, default=min(span, len(set(stages))) - 1) + 1
    while forwards[num_stages] + backwards[num_stages] > 1:
        num_stages += 1
    sizes = (num_stages, num, num_steps)
    if len(OpKind) * num_stages * num * num_steps > max(MAX_TABLE, 100 * len(ops)):
        message = (
            f"{num_stages} stages x {num} microbatches x {num_steps} steps is more than pptrace keeps places for; "
            "are the numbers in the ops right?"
        )
        raise LimitError(message)
    fits = span == num_stages and most == num and num_steps == 1 and lowest >= 0
    return sizes, packed if fits else None


def likely_holders(
    counts: Sequence[Counter[int]], num_stages: int, num_microbatches: int
) -> tuple[bool, tuple[int, ...]]:
    """(two-way or not, the rank of every stage): the one that runs most of its ops, -1 where none does.

    `counts[r][s]` is how many ops of stage s rank r has. Where the ranks mirror each other there are two copies, and the
    ranks of the copy that goes up follow those of the other.
    """
    ranks = range(len(counts))
    if num_stages == len(counts) > 1 and num_stages % 2 == 0 and num_microbatches > 1:
        mirrored = all(
            counts[stage][stage] and 3 * counts[num_stages - 1 - stage][stage] >= counts[stage][stage] > 0
            for stage in range(num_stages)
        )
        if mirrored:
            return True, (*ranks, *reversed(ranks))
    held = []
    for stage in range(num_stages):
        rank = max(ranks, key=lambda r: counts[r][stage])
        held.append(rank if counts[rank][stage] else -1)
    return False, tuple(held)
