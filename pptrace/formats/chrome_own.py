"""A file of pptrace back to its timeline: the schedule and the costs as they were recorded beside the events, the order and the
times as the events have them. Somebody may have edited the file: what the events say of times counts, and a note says so."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import TYPE_CHECKING, NamedTuple

import msgspec
from msgspec import UnsetType

from pptrace.durations import MAX_TICKS, durations
from pptrace.errors import FormatError, ParameterError, PptraceError
from pptrace.formats.chrome_clock import Clock, Decimal, Rebased, rebased, times_of
from pptrace.formats.chrome_reading import OPS, fail, named_events, require_single_keys, time_of
from pptrace.formats.chrome_structs import OwnArgs
from pptrace.formats.trace_reading import document
from pptrace.formats.trace_structs import Event, Trace
from pptrace.model import Op, OpKind
from pptrace.printable import printable

if TYPE_CHECKING:
    from pptrace.formats import Document
    from pptrace.formats.chrome_reading import Opened
    from pptrace.formats.chrome_structs import Recorded
    from pptrace.timeline import Timeline

_ARGS = msgspec.json.Decoder(OwnArgs)
_MESSAGES = (OpKind.SEND_F.name, OpKind.SEND_B.name)


class _Own(NamedTuple):
    """The slices of a file of pptrace, ops and messages: which events they are, and their times, ts and dur in turn."""

    indices: list[int]
    times: list[Decimal]
    events: list[Event]


def document_of(opened_file: Opened, letter: str) -> Document:
    """The timeline of a file that pptrace wrote. What its events say of times counts, not what was recorded beside them."""
    name, recorded = opened_file.name, opened_file.recorded
    if recorded is None:
        fail(name, "$.otherData.pptrace", "missing")
    if letter != "auto":
        message = (
            f"--letter-b is for files of others; pptrace wrote {printable(name, 60)}, in it B is the full backward"
        )
        raise ParameterError(message)
    slices = _own_slices(opened_file)
    if all(event.op in _MESSAGES for event in slices.events):
        fail(name, "$.traceEvents", "no slice is named as an op (2F0); were the events taken out?")
    per_unit = _microseconds(name, recorded)
    times = times_of(
        [time for ts, dur in zip(slices.times[::2], slices.times[1::2], strict=True) for time in (ts, ts.plus(dur))]
    )
    notes = list(recorded.notes)
    ticks_per_unit, measured, offset = recorded.ticks_per_unit, recorded.measured, recorded.offset
    ticks = Clock(ticks_per_unit, per_unit).ticks(times)
    if ticks is None or min(ticks) < 0 or max(ticks) >= MAX_TICKS:
        try:
            moved = rebased(times, per_unit)
        except FormatError as error:
            fail(name, "$.traceEvents", str(error))
        ticks, ticks_per_unit, measured, offset = moved.ticks, moved.ticks_per_unit, True, moved.offset.text()
        notes.append(_moved(moved, recorded.ticks_per_unit))
    trace = Trace(
        schema="pptrace.trace/1",
        schedule=recorded.schedule,
        costs=recorded.costs,
        ticks_per_unit=ticks_per_unit,
        measured=measured,
        offset=offset,
        notes=notes,
        events=[
            msgspec.structs.replace(event, start=ticks[2 * i], end=ticks[2 * i + 1])
            for i, event in enumerate(slices.events)
        ],
    )
    try:
        found = document(trace, name)
    except FormatError as error:
        raise FormatError(_with_events(str(error), slices)) from None
    if not measured and found.timeline is not None and _other_durations(found.timeline):
        found.timeline.measured = True
        said = "the events last longer or shorter than the recorded costs say; the times of the events count"
        found = found._replace(notes=(*found.notes, said))
    return found


def _own_slices(opened_file: Opened) -> _Own:
    name = opened_file.name
    slices = _Own([], [], [])
    for index, event, raw in named_events(opened_file):
        if event.ph != "X" or not OPS.fullmatch(event.name) or event.name[0] == "(":
            continue
        require_single_keys(name, index, raw)
        rank = event.pid
        if not isinstance(rank, int) or isinstance(rank, bool) or not 0 <= rank < 10**9:
            fail(name, f"$.traceEvents[{index}].pid", f"expected the number of a rank, got {rank!r}")
        times = [time_of(name, index, "ts", event.ts), time_of(name, index, "dur", event.dur)]
        args = OwnArgs()
        if not isinstance(event.args, UnsetType):
            try:
                args = _ARGS.decode(event.args)
            except msgspec.ValidationError as error:
                what, _, place = str(error).replace("`", "").partition(" - at $")
                fail(name, f"$.traceEvents[{index}].args{place}", f"{what[:1].lower()}{what[1:]}")
        op = _op(name, index, event.name)
        if op.kind <= OpKind.STEP or op.kind.name in _MESSAGES:
            slices.events.append(
                Event(
                    event.name,
                    rank,
                    op.stage,
                    op.kind.name,  # type: ignore[arg-type]
                    op.microbatch,
                    op.step,
                    0,
                    0,
                    block=args.block,
                    to=args.receiver,
                )
            )
            slices.indices.append(index)
            slices.times.extend(times)
    return slices


def _op(name: str, index: int, text: str) -> Op:
    try:
        return Op.parse(text)
    except PptraceError as error:
        fail(name, f"$.traceEvents[{index}].name", str(error))


def _microseconds(name: str, recorded: Recorded) -> Fraction:
    try:
        found = Fraction(recorded.microseconds_per_unit)
    except ZeroDivisionError:
        found = Fraction(0)
    if found <= 0:
        fail(name, "$.otherData.pptrace.microseconds_per_unit", f"{recorded.microseconds_per_unit} is not above zero")
    if recorded.ticks_per_unit > 10**60:
        fail(name, "$.otherData.pptrace.ticks_per_unit", "absurdly many ticks in a unit")
    return found


def _moved(moved: Rebased, before: int) -> str:
    if moved.offset.digits:
        return (
            f"the events were moved: the first op begins at {moved.offset.text()} us of the file, which is time 0 here"
        )
    return f"the events were moved: their times are no whole ticks of 1/{before} unit; the times of the events count"


def _other_durations(timeline: Timeline) -> bool:
    """Whether some op does not last what the costs say."""
    try:
        timing = durations(timeline.schedule, timeline.costs)
    except ParameterError:
        return True
    per, own_per = timing.ticks_per_unit, timeline.ticks_per_unit
    return any(
        (end - start) * per != ticks * own_per
        for start, end, ticks in zip(timeline.starts, timeline.ends, timing.ticks, strict=True)
    )


_PLACE = re.compile(r"\$\.events\[(\d+)\](?:\.(\w+))?")
_FIELDS = {"rank": "pid", "start": "ts", "end": "dur", "block": "args.block", "to": "args.receiver"}


def _with_events(message: str, slices: _Own) -> str:
    """`$.events[3].end` says `$.traceEvents[17].dur`."""

    def renamed(found: re.Match[str]) -> str:
        return f"$.traceEvents[{slices.indices[int(found[1])]}].{_FIELDS.get(found[2] or '', 'name')}"

    return (
        _PLACE.sub(renamed, message)
        .replace("$.schedule", "$.otherData.pptrace.schedule")
        .replace("$.costs", "$.otherData.pptrace.costs")
    )
