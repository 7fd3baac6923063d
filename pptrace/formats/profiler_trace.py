"""Files of profilers, one of a run or one for each rank, as a measured timeline: which op a slice is, in which step, and all
clocks on one axis. It takes the slices that chrome_reading.py found; whose they are is profiler_ranks.py's.

PyTorch's `_PipelineScheduleRuntime` names its ranges `PP:2F0`, `PP:1RECV_F0`, `PP:(0F3;3B1)OVERLAP_F_B`; its GPipe writes
`Forward 0` and `Backward 0`, without a stage, which then is the rank; its 1F1B writes nothing that names an op (torch 2.13,
`torch/distributed/pipelining/schedules.py`).
"""

from __future__ import annotations

import re
from fractions import Fraction
from typing import TYPE_CHECKING, NamedTuple

from msgspec import UNSET

from pptrace.costs import Costs
from pptrace.errors import FormatError, PptraceError, ScheduleError
from pptrace.formats import Document
from pptrace.formats.chrome_clock import Decimal, Rebased, rebased, times_of
from pptrace.formats.chrome_reading import fail
from pptrace.formats.listings import schedule_of
from pptrace.formats.op_text import letter_b, with_letter
from pptrace.formats.profiler_ranks import Rank, ranks_of
from pptrace.formats.trace_reading import document as timeline_document
from pptrace.formats.trace_sections import costs_info, ids, schedule_info
from pptrace.formats.trace_structs import Event, Trace
from pptrace.listing import Cell, Listing
from pptrace.model import BACKWARD_KINDS, KINDS_WITHOUT_MICROBATCH, NUM_ENGINE_KINDS, Op, OpKind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pptrace.formats.chrome_reading import Mark, Marks
    from pptrace.model import Schedule

WAITS = (
    "an F, B or I of a profiler contains the wait for its input: work is overstated, waits are hidden, and an op may begin "
    "before what it waits for has ended"
)
UNNAMED = (
    "no event is named as an op (PP:0F0, 0F0 or Forward 0), so nothing says which stage and microbatch a time belongs to; "
    "PyTorch's Schedule1F1B writes no such names: put record_function('PP:0F0') around its steps, or trace a schedule of "
    "_PipelineScheduleRuntime"
)


class _Placed(NamedTuple):
    """One slice as the op, or the overlapped pair, that it is."""

    ops: tuple[Op, ...]
    mark: Mark


def document(files: Sequence[Marks], letter: str = "auto") -> Document:
    """The run that `files` hold: what was run, in order, as a listing with its messages, and when, as a timeline. Where the
    order lacks an op there is the listing alone. Raises `FormatError` with the place."""
    strangers = [(file.name, *stranger) for file in files for stranger in file.strangers]
    if not any(file.marks for file in files):
        for name, place, text in strangers:
            known = "an op is written 2F0, 1UNSHARD or (0F7;7B0)OVERLAP_F_B"
            fail(name, f"$.traceEvents[{place}].name", f"{text!r} is not an op; {known}")
        fail(files[0].name, "$.traceEvents", UNNAMED)
    ranks, notes = ranks_of(files)
    if strangers:
        few = ", ".join(dict.fromkeys(text for _, _, text in strangers[:5]))
        notes.append(f"{len(strangers)} ranges that PyTorch marks, but that name no op, are left out ({few})")
    marks = [mark for rank in ranks for mark in rank.marks]
    by_phase = marks[0].is_phase
    rows = [_row(rank, number if by_phase else None) for number, rank in enumerate(ranks)]
    if any(op.step for row in rows for placed in row for op in placed.ops):
        notes.append("steps are told apart by ops that come again")
    listing, said = _listing(rows, files[0].name, letter)
    profiled = by_phase or any(mark.annotated for mark in marks)
    listing = listing._replace(notes=(*notes, *said, *([WAITS] if profiled else [])))
    try:
        made = schedule_of(listing)
    except ScheduleError:  # whoever needs an order says what is wrong with this one
        return Document(None, listing=listing, notes=listing.notes)
    found = _timed(ranks, rows, made.schedule, made.notes)
    return found._replace(listing=listing if profiled else None)


def _row(rank: Rank, stage: int | None) -> list[_Placed]:
    """The ops of a rank in order. An op that comes again is of the next step; sharding is of the step that is on."""
    times: dict[Op, int] = {}
    current = 0
    row = []
    for mark in rank.marks:
        ops = []
        for op in _ops(rank.name, mark, stage):
            if op.kind in KINDS_WITHOUT_MICROBATCH:
                ops.append(op._replace(step=current))
                continue
            step = op.step or times.get(op, 0)
            times[op] = times.get(op, 0) + 1
            current = max(current, step)
            ops.append(op._replace(step=step))
        row.append(_Placed(tuple(ops), mark))
    return row


def _ops(name: str, mark: Mark, stage: int | None) -> tuple[Op, ...]:
    """What a slice is named as: an op, or the two of a pair."""
    place = f"$.traceEvents[{mark.place}].name"
    if stage is not None:
        phase, number = mark.text.split()
        return (Op(stage, OpKind.F if phase == "Forward" else OpKind.B, int(number)),)
    texts = mark.text.strip("( ").partition(")")[0].split(";")
    try:
        ops = tuple(Op.parse(text.strip().replace("BW", "B")) for text in texts)
    except PptraceError as error:
        fail(name, place, str(error))
    forward = [op for op in ops if op.kind is OpKind.F]
    backward = [op for op in ops if op.kind in BACKWARD_KINDS]
    if len(ops) == 2 and not len(forward) == len(backward) == 1:
        fail(name, place, f"{mark.text}: an overlapped pair is one F and one B (or I)")
    return ops


def _listing(rows: Sequence[Sequence[_Placed]], name: str, letter: str) -> tuple[Listing, tuple[str, ...]]:
    """The order as it was run, with what the letter B was taken for."""
    cells = [[Cell(placed.ops, placed.mark.text) for placed in row] for row in rows]
    decided = letter_b(cells, letter, wrote_bw=any("BW" in cell.text for row in cells for cell in row))
    return Listing(with_letter(cells, decided), name), (decided.note,) if decided.note else ()


def _timed(
    ranks: Sequence[Rank], rows: Sequence[Sequence[_Placed]], schedule: Schedule, notes: tuple[str, ...]
) -> Document:
    """The timeline: every op of `schedule`, which stands in the order of `rows`, with the times of its slice."""
    compute = [[placed for placed in row if placed.ops[0].kind < NUM_ENGINE_KINDS] for row in rows]
    clock = _on_one_axis(ranks, compute)
    names = ids(schedule)
    events: list[Event] = []
    places: list[tuple[str, int]] = []
    ticks = iter(clock.ticks)
    for number, row in enumerate(compute):
        for placed in row:
            start, end = next(ticks), next(ticks)
            block = placed.mark.text if len(placed.ops) == 2 else UNSET
            for _ in placed.ops:
                name, op = names[len(events)], schedule.op(len(events))
                events.append(
                    Event(name, number, op.stage, op.kind.name, op.microbatch, op.step, start, end, block=block)  # type: ignore[arg-type]
                )
                places.append((ranks[number].name, placed.mark.place))
    trace = Trace(
        schema="pptrace.trace/1",
        schedule=schedule_info(schedule),
        costs=costs_info(Costs(unit="us")),
        ticks_per_unit=clock.ticks_per_unit,
        measured=True,
        offset=clock.offset.text(),
        notes=[*notes, f"times are since the first op, at {clock.offset.text()} us of the clock"],
        events=events,
    )
    try:
        return timeline_document(trace, "")
    except FormatError as error:
        raise FormatError(_with_places(str(error).removeprefix(": "), places)) from None


def _on_one_axis(ranks: Sequence[Rank], rows: Sequence[Sequence[_Placed]]) -> Rebased:
    """The start and the end of every slice, in turn, since the first one. A file's times count from when its clock began."""
    numbers = []
    for rank, row in zip(ranks, rows, strict=True):
        began = Decimal(rank.base, 3)  # nanoseconds as microseconds
        for placed in row:
            start = began.plus(placed.mark.ts)
            numbers += [start, start.plus(placed.mark.dur)]
    try:
        return rebased(times_of(numbers), Fraction(1))
    except FormatError as error:
        fail(ranks[0].name, "$.traceEvents", str(error))


def _with_places(message: str, places: Sequence[tuple[str, int]]) -> str:
    """`$.events[3].start: ...` as the file and event that it is."""
    found = re.match(r"\$\.events\[(\d+)\](?:\.\w+)?", message)
    if not found:
        return message
    name, index = places[int(found[1])]
    return f"{name}: $.traceEvents[{index}]{message[found.end() :]}"
