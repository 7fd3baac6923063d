"""From the bytes of a Chrome trace file to its events: the slices that are named as ops (`Mark`), and the helpers that read
events of any file. It owns limits, types and places in messages; what the slices mean is chrome_own.py's for files of pptrace,
profiler_trace.py's for the others.

Of an event only the name and phase are looked at until it turns out to be an op, so that profiler traces with a hundred events
beside each op stay cheap and may hold whatever they like.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import msgspec
from msgspec import Raw, UnsetType

from pptrace.errors import FormatError
from pptrace.formats.chrome_clock import Decimal, decimal
from pptrace.formats.chrome_structs import CHROME_SCHEMA, AnyEvent, File, Recorded
from pptrace.formats.json_decoding import decoded
from pptrace.printable import printable

if TYPE_CHECKING:
    from collections.abc import Iterator

_EVENT = msgspec.json.Decoder(AnyEvent)

_KINDS = "F|B|I|W|R|BW|REDUCE|STEP|SEND_F|RECV_F|SEND_B|RECV_B|UNSHARD|RESHARD|REDUCE_GRAD"
_ONE = rf"[0-9]{{1,9}}(?:{_KINDS})(?:[0-9]{{1,9}})?(?:@[0-9]{{1,9}})?"
OPS = re.compile(rf"{_ONE}|\( ?{_ONE} ?; ?{_ONE} ?\) ?OVERLAP_F_B", re.ASCII)
_PHASES = re.compile(r"(Forward|Backward) ([0-9]{1,9})", re.ASCII)
_PREFIX = "PP:"
REMEDY = 'a Chrome trace is {"traceEvents": [...]}, or the list of events alone'


class Opened(NamedTuple):
    """A file, its events still text; `recorded` where pptrace wrote it."""

    name: str
    file: File
    recorded: Recorded | None


class Mark(NamedTuple):
    """One slice that is named as an op of a pipeline, in a file of another program.

    `text` is an op (`2F0`), an overlapped pair, or `Forward 3`, where the stage is not said; `place` its index among the
    events; `ts` and `dur` are numbers of the file.
    """

    text: str
    annotated: bool
    ts: Decimal
    dur: Decimal
    pid: int | str
    tid: int | str
    cat: str
    place: int

    @property
    def is_phase(self) -> bool:
        """`Forward 3`, not an op."""
        return self.text[0] in "FB"


class Marks(NamedTuple):
    """What a file of another program holds: its marks, the rank and the number of ranks that it says it is of, when its clock
    began, in nanoseconds, the names of its processes, and the place and text of each range that PyTorch marks as one of a
    pipeline (`PP:`) though it names no op that is known."""

    name: str
    marks: list[Mark]
    rank: int | None
    num_ranks: int | None
    base: int
    processes: dict[int | str, str]
    strangers: list[tuple[int, str]]


def opened(data: bytes, name: str) -> Opened:
    """The events of a file, still text, and what pptrace recorded beside them."""
    start = data[:64].lstrip(b"\xef\xbb\xbf \t\r\n")[:1]
    if start == b"[":
        file = File(decoded(data, list[Raw], name, unique_keys=False, remedy=REMEDY))  # a bare array of events
    else:
        file = decoded(data, File, name, unique_keys=False, remedy=REMEDY)
    other = file.otherData
    if not isinstance(other, dict) or "pptrace" not in other:
        return Opened(name, file, None)
    try:
        recorded = msgspec.convert(other["pptrace"], Recorded)
    except msgspec.ValidationError as error:
        what, _, place = str(error).replace("`", "").partition(" - at $")
        if place.startswith(".schema") or "field schema" in what:
            what = f"the schema must be {CHROME_SCHEMA!r}; is the file of another version"
            fail(name, "$.otherData.pptrace.schema", f"{what}?")
        fail(name, f"$.otherData.pptrace{place}", f"{what[:1].lower()}{what[1:]}")
    return Opened(name, file, recorded)


def fail(name: str, place: str, what: str) -> NoReturn:
    """Raise `FormatError` for a place of a file."""
    raise FormatError(f"{name}: {place}: {printable(what, 400)}")


def named_events(opened_file: Opened) -> Iterator[tuple[int, AnyEvent, Raw]]:
    """The events of a file that have a name, or end what has one, loosely decoded, with their index and text."""
    name = opened_file.name
    index = -1
    try:
        for index, raw in enumerate(opened_file.file.traceEvents):
            event = _EVENT.decode(raw)
            if isinstance(event.name, str) or event.ph == "E":
                yield index, event, raw
    except msgspec.ValidationError as error:
        what = str(error).replace("`", "")
        fail(name, f"$.traceEvents[{index}]", f"{what[:1].lower()}{what[1:]}; an event is an object")
    except msgspec.DecodeError as error:
        fail(name, f"$.traceEvents[{index}]", f"not JSON: {error}")
    except RecursionError:
        fail(name, f"$.traceEvents[{index}]", "lists in lists without end")


def require_single_keys(name: str, index: int, raw: Raw) -> None:
    """Refuse an event that has a key twice: it cannot be known which one is meant."""

    def check(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            key = Counter(key for key, _ in pairs).most_common(1)[0][0]
            fail(name, f"$.traceEvents[{index}]", f"the key {key[:60]!r} stands there twice; leave one")
        return found

    try:
        json.loads(bytes(raw), object_pairs_hook=check)
    except RecursionError:
        fail(name, f"$.traceEvents[{index}]", "lists in lists without end")


def time_of(name: str, index: int, field: str, raw: Raw | UnsetType) -> Decimal:
    """ts or dur of an event."""
    if isinstance(raw, UnsetType):
        fail(name, f"$.traceEvents[{index}].{field}", "missing; a complete event (X) needs ts and dur, in microseconds")
    text = bytes(raw).decode()
    try:
        found = decimal(text)
    except FormatError as error:
        fail(name, f"$.traceEvents[{index}].{field}", str(error))
    if field == "dur" and found.digits < 0:
        fail(name, f"$.traceEvents[{index}].dur", f"{text} is less than zero")
    return found


def marks(opened_file: Opened) -> Marks:
    """The slices of a file of another program that are named as ops: `2F0`, `PP:2F0`, `(0F7;7B0)OVERLAP_F_B`, `Forward 3`.
    A begin (B) and the end (E) that closes it on its thread are a slice as a complete event (X) is."""
    name = opened_file.name
    found: list[Mark] = []
    strangers: list[tuple[int, str]] = []
    processes: dict[int | str, str] = {}
    begun: dict[tuple[str, str], list[tuple[int, AnyEvent, Raw]]] = {}
    for index, event, raw in named_events(opened_file):
        if event.ph == "M" and event.name == "process_name" and isinstance(event.pid, (int, str)):
            processes[event.pid] = _process_name(event.args)
        elif event.ph == "X" and _is_op(event.name, index, strangers):
            found.append(_mark(name, index, event, raw, time_of(name, index, "dur", event.dur)))
        elif event.ph == "B":
            begun.setdefault((str(event.pid), str(event.tid)), []).append((index, event, raw))
        elif event.ph == "E" and begun.get((str(event.pid), str(event.tid))):
            place, first, text = begun[str(event.pid), str(event.tid)].pop()
            if _is_op(first.name, place, strangers):
                lasts = time_of(name, index, "ts", event.ts).minus(time_of(name, place, "ts", first.ts))
                if lasts.digits < 0:
                    fail(name, f"$.traceEvents[{index}].ts", f"ends {first.name} before it begins")
                found.append(_mark(name, place, first, text, lasts))
    rank, num_ranks = _distributed(name, opened_file.file)
    return Marks(name, found, rank, num_ranks, _base(name, opened_file.file), processes, strangers)


def _is_op(text: str, index: int, strangers: list[tuple[int, str]]) -> bool:
    """Whether a slice is one of a pipeline; those that PyTorch marks as such, but no op that is known, are kept apart."""
    plain = text.removeprefix(_PREFIX).strip()
    if OPS.fullmatch(plain) or (plain is text and _PHASES.fullmatch(plain)):
        return True
    if text.startswith(_PREFIX):
        strangers.append((index, printable(plain, 60)))
    return False


def _mark(name: str, index: int, event: AnyEvent, raw: Raw, dur: Decimal) -> Mark:
    require_single_keys(name, index, raw)
    text = event.name.removeprefix(_PREFIX).strip()
    pid, tid = (_id(name, index, field, getattr(event, field)) for field in ("pid", "tid"))
    category = event.cat if isinstance(event.cat, str) else ""
    ts = time_of(name, index, "ts", event.ts)
    return Mark(text, event.name.startswith(_PREFIX), ts, dur, pid, tid, category, index)


def _process_name(args: Raw | UnsetType) -> str:
    if isinstance(args, UnsetType):
        return ""
    try:
        found = msgspec.json.decode(args)
    except RecursionError:
        return ""
    label = found.get("name") if isinstance(found, dict) else None
    return label if isinstance(label, str) else ""


def _id(name: str, index: int, field: str, value: object) -> int | str:
    """A process or thread: a number or a word; no thread is the process's own."""
    if value is None:
        return 0
    if isinstance(value, bool) or not isinstance(value, (int, str)):
        fail(name, f"$.traceEvents[{index}].{field}", "expected a number or a word")
    return value


def _distributed(name: str, file: File) -> tuple[int | None, int | None]:
    """(rank, number of ranks) as PyTorch's profiler writes them."""
    info = file.distributedInfo
    if not isinstance(info, dict):
        return None, None
    numbers = []
    for field, least in (("rank", 0), ("world_size", 1)):
        value = info.get(field)
        if value is not None and (isinstance(value, bool) or not isinstance(value, int) or not least <= value < 10**6):
            fail(name, f"$.distributedInfo.{field}", f"expected a whole number from {least} to 999999")
        numbers.append(value)
    return numbers[0], numbers[1]


def _base(name: str, file: File) -> int:
    base = file.baseTimeNanoseconds
    if base is None:
        return 0
    if isinstance(base, bool) or not isinstance(base, int) or abs(base) >= 2**63:
        fail(name, "$.baseTimeNanoseconds", "expected a whole number of nanoseconds")
    return base
