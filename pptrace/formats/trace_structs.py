"""The shape of a trace, `pptrace.trace/1`: the fields, their types and ranges, and what each means. Reading, writing and the
published JSON Schema are all made from these structs. Additive changes only.

Times are whole ticks of 1/`ticks_per_unit`; costs are exact texts (`1`, `3/2`). Ids are ops as PyTorch writes them: `2F0`,
`2F0@1` in optimizer step 1, `2REDUCE`, `2STEP`; messages are `2SEND_F0`.
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

SCHEMA = "pptrace.trace/1"
MAX_TICK = 2**53

Tick = Annotated[int, Meta(ge=0, le=MAX_TICK)]
Index = Annotated[int, Meta(ge=0, le=999_999_999)]
Size = Annotated[int, Meta(ge=1, le=999_999_999)]
Name = Annotated[str, Meta(min_length=1, max_length=200)]
Id = Annotated[str, Meta(min_length=1, max_length=60)]
Exact = Annotated[str, Meta(pattern=r"^-?[0-9]{1,60}(/[0-9]{1,60})?$", description="an exact number: 3 or 3/2")]
Clock = Annotated[
    str,
    Meta(
        pattern=r"^(-?[0-9]{1,80}(\.[0-9]{1,80})?)?$",
        description="what the clock of the times that were read said at tick 0, in its own unit (microseconds in a profiler)",
    ),
]
Kind = Literal["F", "B", "I", "W", "R", "REDUCE", "STEP", "SEND_F", "SEND_B"]


class Event(Struct, frozen=True, gc=False):
    """One op placed in time, [start, end); or one message that takes time, from its departure to its arrival: its `rank` and
    `stage` are the sender's, `after` names the op whose output it carries. Messages are no work of the rank."""

    id: Id
    rank: Index
    stage: Index
    op: Annotated[
        Kind,
        Meta(
            description="F forward, B full backward, I for the input, W for the weights, R recompute; SEND_F an activation "
            "on its way to the next stage, SEND_B a gradient on its way to the stage before"
        ),
    ]
    microbatch: Annotated[Index | None, Meta(description="null where the op belongs to the whole step")]
    step: Index
    start: Tick
    end: Tick
    after: Annotated[
        list[Id] | UnsetType, Meta(description="what it waits for, the op before it on its rank left out")
    ] = UNSET
    after_all: Annotated[Literal["REDUCE"] | UnsetType, Meta(description="it waits for every REDUCE of its step")] = (
        UNSET
    )
    block: Annotated[str | UnsetType, Meta(description="the overlapped pair that it is half of")] = UNSET
    version: Annotated[int | UnsetType, Meta(description="the weight version that it uses (no flush)")] = UNSET
    to: Annotated[Index | UnsetType, Meta(description="the rank that a message goes to")] = UNSET


class ScheduleInfo(Struct, frozen=True):
    """Which schedule it is; `stage_ranks[s]` is the rank of stage s (going down, where there are two copies)."""

    name: Name
    ranks: Size
    stages: Size
    chunks: Size
    microbatches: Size
    steps: Size = 1
    placement: Annotated[Name, Meta(description="loop, v, bidirectional, or another word with stage_ranks")] = "loop"
    stage_ranks: list[Index] | UnsetType = UNSET
    options: dict[str, str | int] = {}
    asynchronous: Annotated[bool, Meta(description="no flush")] = False
    joint_update: Annotated[bool, Meta(description="a STEP waits for the REDUCE of all stages")] = True
    early_recompute: bool = False


class PerValues(Struct, frozen=True):
    """One number, or a list: `per` rank (one microbatch, all chunks of the rank), op (a value per rank) or stage."""

    per: Literal["rank", "op", "stage"]
    values: Annotated[list[Exact], Meta(min_length=1)]


class SizesInfo(Struct, frozen=True, omit_defaults=True):
    """Bytes."""

    activation: PerValues | None = None
    after_input: PerValues | None = None
    boundary: PerValues | None = None
    weights: PerValues | None = None
    gradients: PerValues | None = None
    optimizer: PerValues | None = None


class CostsInfo(Struct, frozen=True):
    """What the times were computed from, exactly. `backward` is the full backward, `weight_grad` its W part."""

    forward: PerValues
    backward: PerValues
    weight_grad: PerValues
    comm: Annotated[list[Exact], Meta(min_length=1)]
    reduce: Exact = "0"
    step_time: Exact = "0"
    overlap: Annotated[str, Meta(description="sum, max, split, or an exact number", max_length=130)] = "sum"
    link: Literal["latency", "serial", "blocking"] = "latency"
    microbatch_scale: list[Exact] = []
    unit: Annotated[str, Meta(max_length=20)] = ""
    layers: Annotated[
        list[Size], Meta(description="layers of every stage, whose times together are the stage's; empty: not known")
    ] = []
    source: Annotated[str, Meta(max_length=4096)] = ""
    sizes: SizesInfo | UnsetType = UNSET


class LifetimeInfo(Struct, frozen=True, gc=False):
    """One saved state, alive in [start, end); from `shrinks` on only what W needs is kept."""

    kind: Name
    stage: Index
    microbatch: Index
    step: Index
    rank: Index
    start: Tick
    end: Tick
    shrinks: Tick | None
    created_by: Id
    released_by: Annotated[Id | None, Meta(description="null: no op releases it")]


class RatioInfo(Struct, frozen=True, gc=False):
    """An exact value, not reduced; times are ticks over 1."""

    numerator: int
    denominator: int


class MetricInfo(Struct, frozen=True):
    """One metric with its definition; one value for the pipeline, or one per rank."""

    key: Name
    label: str
    definition: str
    unit: Literal["time", "ratio", "count", "rate", "bytes"]
    per: Literal["pipeline", "rank"]
    denominator: Annotated[str, Meta(description="what a ratio is divided by")]
    values: list[RatioInfo]


class PhaseInfo(Struct, frozen=True):
    """Numbers of ops of one rank before its first backward, between, and after its last forward; and the ticks."""

    rank: Index
    warmup: Index
    steady: Index
    cooldown: Index
    steady_from: Tick
    cooldown_from: Tick


class PhasesInfo(Struct, frozen=True):
    """Per rank, and for the pipeline."""

    ranks: list[PhaseInfo]
    warmup_until: Tick
    drain_from: Tick


class PeakInfo(Struct, frozen=True):
    """The most held at once by one rank, since when, and the owners [stage, microbatch, step] alive then."""

    rank: Index
    held: Index
    at: Tick
    owners: list[tuple[Index, Index, Index]]


class RankBytesInfo(Struct, frozen=True):
    """The most bytes of one rank, since when, and what they are."""

    rank: Index
    held: Exact
    at: Tick
    parts: dict[str, Exact]


class BytesInfo(Struct, frozen=True):
    """Peak bytes per rank; the parts whose sizes are not known are left out."""

    ranks: list[RankBytesInfo]
    left_out: list[str]


class MemoryInfo(Struct, frozen=True):
    """Activations held: peaks, and per rank [tick, count] wherever the count changes."""

    unit: str
    counted: str
    bound: Index
    peaks: list[PeakInfo]
    held: list[list[tuple[Tick, Index]]]
    input_peaks: list[PeakInfo] | UnsetType = UNSET
    bytes: BytesInfo | UnsetType = UNSET


class StashInfo(Struct, frozen=True):
    """How many weight versions of a stage a rank keeps: the most, since when, and [tick, count] wherever it changes."""

    rank: Index
    stage: Index
    peak: Index
    at: Tick
    held: list[tuple[Tick, Index]]


class VersionsInfo(Struct, frozen=True):
    """Weight versions of a schedule without a flush; `staleness` is per rank, in updates, at most."""

    stashes: list[StashInfo]
    staleness: list[Index]


class ClosedFormInfo(Struct, frozen=True):
    """A published formula, what it gives, what the trace gives (units of time, or counts), and which condition fails."""

    metric: Name
    formula: str
    claimed: list[Exact]
    traced: list[Exact]
    verdict: str
    failing: list[str]


class IdleSlotInfo(Struct, frozen=True, gc=False):
    """A time in which a rank runs nothing, the op that follows it and what that waits for."""

    rank: Index
    start: Tick
    end: Tick
    cause: Name
    before: Id | None
    awaits: Id | None


class IdleInfo(Struct, frozen=True):
    """Idle time by cause: per rank, and the budget of all ranks together, in ticks."""

    causes: dict[str, str]
    parts: list[dict[str, Tick]]
    budget: dict[str, int]
    slots: list[IdleSlotInfo]


class ProofInfo(Struct, frozen=True):
    """The verdict of `pptrace prove` on this order, where it was asked for. `pptrace prove -t json` has all of it."""

    arithmetic: Literal["exact", "float64", "float32"]
    proved: bool
    verdict: str
    faults: Annotated[
        list[str], Meta(description="ops that could not use the state they need, in the order of the run")
    ]


class Header(Struct, frozen=True, kw_only=True):
    """All of a trace but its events."""

    schema: Literal["pptrace.trace/1"]
    schedule: ScheduleInfo
    costs: CostsInfo | UnsetType = UNSET
    ticks_per_unit: Annotated[int, Meta(ge=1, description="a time in units is ticks / ticks_per_unit")] = 1
    unit: Annotated[str, Meta(max_length=20, description="what a unit of time is")] | UnsetType = UNSET
    measured: Annotated[bool, Meta(description="times were read, not simulated")] = False
    offset: Clock | UnsetType = UNSET
    headline: list[str] | UnsetType = UNSET
    assumptions: list[str] | UnsetType = UNSET
    omitted: str | UnsetType = UNSET
    advice: Annotated[str | UnsetType, Meta(description="other parameters of the schedule that would save time")] = (
        UNSET
    )
    notes: list[Annotated[str, Meta(max_length=2000)]] = []
    lifetimes: list[LifetimeInfo] | UnsetType = UNSET
    memory: MemoryInfo | UnsetType = UNSET
    versions: VersionsInfo | UnsetType = UNSET
    phases: PhasesInfo | UnsetType = UNSET
    metrics: list[MetricInfo] | UnsetType = UNSET
    closed_forms: list[ClosedFormInfo] | UnsetType = UNSET
    idle: IdleInfo | UnsetType = UNSET
    proof: ProofInfo | UnsetType = UNSET


class Trace(Header, frozen=True, kw_only=True):
    """A pptrace trace: one timeline of a pipeline-parallel schedule, with everything that `pptrace show` prints of it."""

    events: list[Event]
