"""The shape of a Chrome trace file as far as it is read: the file, an event, and what pptrace keeps of itself in its own files.
Times stay raw text here, because a float would round them."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Raw, Struct, UnsetType

from pptrace.formats.trace_structs import Clock, CostsInfo, Exact, Index, ScheduleInfo

CHROME_SCHEMA = "pptrace.chrome/1"


class Recorded(Struct, frozen=True, kw_only=True):
    """What the events do not say: all but the times of a timeline. In `otherData`, under `pptrace`."""

    schema: Literal["pptrace.chrome/1"]
    schedule: ScheduleInfo
    costs: CostsInfo
    ticks_per_unit: Annotated[int, Meta(ge=1)]
    microseconds_per_unit: Exact
    measured: bool = False
    offset: Clock | UnsetType = UNSET
    notes: list[Annotated[str, Meta(max_length=2000)]] = []


class File(Struct, frozen=True):
    """A file: its events, each still text."""

    traceEvents: list[Raw]
    otherData: Any = None
    distributedInfo: Any = None
    baseTimeNanoseconds: Any = None


class AnyEvent(Struct, frozen=True, gc=False):
    """An event of whoever, taken loosely: only those that are named as ops are looked at more closely."""

    ph: Any = None
    name: Any = None
    cat: Any = None
    pid: Any = None
    tid: Any = None
    ts: Raw | UnsetType = UNSET
    dur: Raw | UnsetType = UNSET
    args: Raw | UnsetType = UNSET


class OwnArgs(Struct, frozen=True, gc=False):
    """What pptrace says of a slice beside its name."""

    block: Annotated[str, Meta(max_length=200)] | UnsetType = UNSET
    receiver: Index | UnsetType = UNSET
