"""Between listings and schedules: which rank holds which stage, how many microbatches, and the compute ops in order. Readers
make listings, and this file makes schedules of those that hold one; what is wrong with the others is said in full by check/,
here the first fault is named with its place."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from pptrace.errors import ScheduleError
from pptrace.formats.op_text import cell_text
from pptrace.formats.text import without_collector
from pptrace.listing import Cell, Listing
from pptrace.model import NUM_ENGINE_KINDS, Coder, OpKind, Placement, Schedule

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pptrace.model import Op


class Made(NamedTuple):
    """A schedule made from a listing, and sentences for the header: what the reader decided and what was left out."""

    schedule: Schedule
    notes: tuple[str, ...]


@without_collector()
def schedule_of(listing: Listing, *, name: str = "custom", incomplete: bool = False) -> Made:
    """The schedule that a listing holds: its compute ops (F B I W R, and REDUCE, STEP where it has them) in order.

    Messages and sharding ops are left out, and said in the notes: a schedule's messages follow from its dependencies.
    Raises `ScheduleError`, with line and column, for a rank without ops, a stage on no rank or on two, a microbatch number
    that cannot be, a doubled op; and, unless `incomplete`, for a (stage, microbatch) whose forward or backward is missing.
    """
    _require_ops_on_every_rank(listing)
    engine_rows = [[cell for cell in row if cell.ops and cell.ops[0].kind < NUM_ENGINE_KINDS] for row in listing.rows]
    num_microbatches, num_steps = _sizes(engine_rows)
    placement = placement_of(listing.rows, num_microbatches)
    coder = Coder(placement.num_stages, num_microbatches, num_steps)
    orders: list[list[int]] = []
    pairs: list[int] = []
    done = 0
    for rank, row in enumerate(engine_rows):
        order: list[int] = []
        for cell in row:
            if len(cell.ops) == 2:
                pairs.append(done + len(order))
            order += [
                coder.code_of(_of_its_copy(op, rank, placement, num_microbatches), place(cell, rank)) for op in cell.ops
            ]
        orders.append(order)
        done += len(order)
    options: dict[str, str | int] = {}
    schedule = Schedule(name, placement, num_microbatches, orders, num_steps=num_steps, pairs=pairs, options=options)
    _require_no_doubles(schedule, engine_rows)
    if not incomplete:
        _require_complete(schedule)
    left_out = sum(map(len, listing.rows)) - sum(map(len, engine_rows))
    notes = (*listing.notes, *([_left_out(listing, left_out)] if left_out else []))
    return Made(schedule, notes)


@without_collector()
def listing_of(schedule: Schedule, *, source: str = "") -> Listing:
    """A schedule as a listing: every op a cell, overlapped pairs in one, without places."""
    rows = []
    for rank in range(schedule.num_ranks):
        first = schedule.rank_starts[rank]
        ops = schedule.order(rank)
        row, i = [], 0
        while i < len(ops):
            together = tuple(ops[i : i + 2]) if first + i in schedule.pairs else (ops[i],)
            row.append(Cell(together, cell_text(together)))
            i += len(together)
        rows.append(tuple(row))
    return Listing(tuple(rows), source or schedule.name)


def place(cell: Cell, rank: int) -> str:
    """Where a cell stands, to begin a message with."""
    return f"line {cell.line}, column {cell.column}: " if cell.line else f"rank {rank}: "


def placement_of(rows: Sequence[Sequence[Cell]], num_microbatches: int) -> Placement:
    """Which rank holds which stage, as the ops of `rows` say: loop, v, two-way, or any other one-way placement.

    Raises `ScheduleError` for a stage on no rank or on two (unless all of it is the two-way placement), with places.
    """
    first_cells: dict[tuple[int, int], Cell] = {}
    for rank, row in enumerate(rows):
        for cell in row:
            for op in cell.ops:
                if (op.stage, rank) not in first_cells:
                    first_cells[op.stage, rank] = cell
    ranks_of: dict[int, list[int]] = {}
    for stage, rank in first_cells:
        ranks_of.setdefault(stage, []).append(rank)
    num_stages, num_ranks = max(ranks_of, default=-1) + 1, len(rows)
    if num_stages > len(ranks_of):
        absent = next(stage for stage in range(num_stages) if stage not in ranks_of)
        message = (
            f"no rank has an op of stage {absent}, though stages go up to {num_stages - 1}; stages count from 0, "
            "without gaps"
        )
        raise ScheduleError(message)
    doubled = next((stage for stage in range(num_stages) if len(ranks_of[stage]) > 1), None)
    if doubled is not None:
        if _is_two_way(rows, num_stages, num_microbatches):
            return Placement.two_way(num_ranks)
        one, other = ranks_of[doubled][:2]
        cell = first_cells[doubled, other]
        message = (
            f"{place(cell, other)}{cell.text}: stage {doubled} is on rank {other} here and on rank {one} "
            f"before ({first_cells[doubled, one].text}); a stage lives on one rank"
        )
        raise ScheduleError(message)
    return known_placement([ranks_of[stage][0] for stage in range(num_stages)], num_ranks)


def known_placement(ranks: Sequence[int], num_ranks: int) -> Placement:
    """`ranks[s]` by its name: "loop" or "v" where it is one, else "explicit"."""
    whole, rest = divmod(len(ranks), num_ranks)
    for named in (Placement.loop(num_ranks, whole), Placement.zigzag(num_ranks, whole)) if not rest else ():
        if named.ranks == tuple(ranks):
            return named
    return Placement("explicit", ranks, num_ranks)


def _is_two_way(rows: Sequence[Sequence[Cell]], num_stages: int, num_microbatches: int) -> bool:
    """Whether every op is where two copies in opposite directions put it: half of the microbatches down, half up."""
    if num_stages != len(rows):
        return False
    two_way = Placement.two_way(num_stages)
    return all(
        op.microbatch is None or rank == two_way.rank_of(op.stage, op.microbatch, num_microbatches)
        for rank, row in enumerate(rows)
        for cell in row
        for op in cell.ops
    )


def _of_its_copy(op: Op, rank: int, placement: Placement, num_microbatches: int) -> Op:
    """REDUCE and STEP of the copy that goes up carry the first microbatch of that copy, which texts leave out."""
    if op.microbatch is None and placement.bidirectional and placement.ranks[op.stage] != rank:
        return op._replace(microbatch=(num_microbatches + 1) // 2)
    return op


def _require_ops_on_every_rank(listing: Listing) -> None:
    if not listing.rows:
        message = "there is no rank; a schedule has one row of ops per rank"
        raise ScheduleError(message)
    for rank, row in enumerate(listing.rows):
        for cell in row:
            if not cell.ops:
                message = f"{place(cell, rank)}{cell.text[:40]!r} is not an op"
                raise ScheduleError(message)
        if not any(op.kind < NUM_ENGINE_KINDS for cell in row for op in cell.ops):
            message = f"rank {rank} has no compute op; every rank runs at least one stage"
            raise ScheduleError(message)


def _sizes(rows: Sequence[Sequence[Cell]]) -> tuple[int, int]:
    """(microbatches, steps). Refuses numbers that would need far more ops than there are, before tables are made of them."""
    highest, lowest, last_step, num_ops = -1, 0, 0, 0
    for row in rows:
        for cell in row:
            for _, _, microbatch, step in cell.ops:
                num_ops += 1
                if microbatch is not None:
                    highest = max(highest, microbatch)
                    lowest = min(lowest, microbatch)
                last_step = max(last_step, step)
    if lowest < 0:
        _refuse_microbatch(rows, lowest, "microbatches count from 0")
    if highest < 0:
        message = "no op has a microbatch; a schedule has F and B ops, for example 0F0"
        raise ScheduleError(message)
    if (highest + 1) * (last_step + 1) > 4 * num_ops + 64:
        _refuse_microbatch(rows, highest, f"there are {num_ops:,} ops in all; are the numbers right?")
    return highest + 1, last_step + 1


def _refuse_microbatch(rows: Sequence[Sequence[Cell]], number: int, why: str) -> None:
    for rank, row in enumerate(rows):
        for cell in row:
            if any(op.microbatch == number for op in cell.ops):
                message = f"{place(cell, rank)}{cell.text}: microbatch {number} cannot be; {why}"
                raise ScheduleError(message)


def _require_no_doubles(schedule: Schedule, rows: Sequence[Sequence[Cell]]) -> None:
    if len(set(schedule.codes)) == schedule.num_ops:
        return
    seen: dict[Op, tuple[int, Cell]] = {}
    for rank, row in enumerate(rows):
        for cell in row:
            for op in cell.ops:
                if op in seen:
                    before_rank, before = seen[op]
                    where = place(before, before_rank).removesuffix(": ")
                    message = f"{place(cell, rank)}{op} occurs twice (first at {where}); every op runs once"
                    raise ScheduleError(message)
                seen[op] = rank, cell


def _require_complete(schedule: Schedule) -> None:
    """Every (stage, microbatch) has one F, and one B or else one I and one W."""
    present = set(schedule.codes)
    coder = schedule.coder
    missing: list[int] = []
    for stage in range(schedule.num_stages):
        f, b, i, w = (coder.run(kind, stage) for kind in (OpKind.F, OpKind.B, OpKind.I, OpKind.W))
        for number in range(len(f)):
            if f[number] not in present:
                missing.append(f[number])
            if b[number] in present:
                _require_one_backward(schedule, present, b[number], (i[number], w[number]))
            elif i[number] not in present:
                missing.append(i[number] if w[number] in present else b[number])
            elif w[number] not in present:
                missing.append(w[number])
    if missing:
        op = coder.op(missing[0])
        num, steps = schedule.num_microbatches, schedule.num_steps
        rank = schedule.placement.rank_of(op.stage, op.microbatch or 0, num)
        more = f" (and {len(missing) - 1} more)" if len(missing) > 1 else ""
        count = f"{num} microbatches" if num > 1 else "1 microbatch"
        message = (
            f"rank {rank} has no {op}{more}: with {count}{' in each step' if steps > 1 else ''} every stage runs "
            "F and B (or I and W) of each; `pptrace check` names all that is wrong"
        )
        raise ScheduleError(message)


def _require_one_backward(schedule: Schedule, present: set[int], full: int, halves: Iterable[int]) -> None:
    for half in halves:
        if half in present:
            one, other = schedule.coder.op(full), schedule.coder.op(half)
            message = (
                f"rank {schedule.rank_at(schedule.codes.index(half))} has {one} and {other}: B is the full backward (I and W); "
                "if the file means the input half by B, say --letter-b input"
            )
            raise ScheduleError(message)


def _left_out(listing: Listing, count: int) -> str:
    kinds = {op.kind for op in chain.from_iterable(cell.ops for row in listing.rows for cell in row)}
    named = " ".join(kind.name for kind in sorted(kinds) if kind >= NUM_ENGINE_KINDS)
    return f"{count} cells without compute are left out ({named}); messages follow from the dependencies and -c"
