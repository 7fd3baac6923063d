"""What the numbers rest on, in words: the headline of a report, its assumptions, and what the model leaves out."""

from __future__ import annotations

from fractions import Fraction
from itertools import groupby
from typing import TYPE_CHECKING

from pptrace.model import OpKind
from pptrace.rationals import text_of
from pptrace.schedules.registry import REGISTRY, entry

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pptrace.costs import Costs, Values
    from pptrace.model import Placement, Schedule
    from pptrace.timeline import Timeline

OMITTED = (
    "not modelled: memory pressure, overlap of communication with compute on one device, kernel effects; "
    "what they do needs evidence"
)

_PER = {"rank": "per microbatch and rank", "op": "per op", "stage": "per op of each stage"}
_LONGEST_LIST = 64
"""Characters of a list of values that the headline shows."""


def headline(timeline: Timeline) -> tuple[str, str, str]:
    """(`1f1b (flush)`, `P=4 ranks  M=4 microbatches`, `f=1 b=1 per microbatch and rank   c=0`)."""
    schedule = timeline.schedule
    options = [f"{name}={value}" for name, value in schedule.options.items() if name in ("group", "order", "waves")]
    kind = "no flush" if schedule.asynchronous else "flush"
    title = f"{schedule.name} ({', '.join([kind, *options])})"
    return title, _sizes(schedule), _costs(timeline)


def _sizes(schedule: Schedule) -> str:
    parts = [_count("P", schedule.num_ranks, "rank", "ranks")]
    if schedule.num_stages != schedule.num_ranks:
        per_rank = {len(schedule.placement.stages(rank)) for rank in range(schedule.num_ranks)}
        if len(per_rank) == 1:
            parts.append(_count("v", schedule.num_chunks, "chunk a rank", "chunks a rank"))
        parts.append(_count("S", schedule.num_stages, "stage", "stages"))
    parts.append(_count("M", schedule.num_microbatches, "microbatch", "microbatches"))
    if schedule.num_steps > 1:
        parts.append(f"{schedule.num_steps} steps")
    return "  ".join(parts)


def _count(letter: str, number: int, one: str, many: str) -> str:
    return f"{letter}={number} {one if number == 1 else many}"


def _costs(timeline: Timeline) -> str:
    costs, kinds = timeline.costs, timeline.schedule.kinds()
    unit = [f"unit {costs.unit}"] if costs.unit else []
    if timeline.measured:
        return "   ".join(["times as read", *unit])
    shown = [("f", costs.forward), ("b", costs.backward)]
    if kinds & {OpKind.I, OpKind.W} or timeline.schedule.pairs:
        shown.append(("w", costs.weight_grad))
    groups: dict[str, list[str]] = {}
    for letter, values in shown:
        one = _of_one_layer(values, costs.layers)
        if one is not None:
            groups.setdefault("per layer and microbatch", []).append(f"{letter}={text_of(one)}")
        else:
            groups.setdefault(_PER[values.per], []).append(f"{letter}={_values(values)}")
    parts = [f"{' '.join(group)} {meaning}" for meaning, group in groups.items()]
    latency = ",".join(text_of(value) for value in costs.comm)
    parts.append(f"c={latency if len(latency) <= _LONGEST_LIST else latency[:_LONGEST_LIST] + '...'}")
    return "   ".join([*parts, *unit])


def _of_one_layer(values: Values, layers: Sequence[int]) -> Fraction | None:
    """The time of one layer where all stages have the same, else None."""
    if values.per != "stage" or len(values.numbers) != len(layers):
        return None
    found = {Fraction(number, count) for number, count in zip(values.numbers, layers, strict=True)}
    return found.pop() if len(found) == 1 else None


def _values(values: Values) -> str:
    text = values.text()
    if len(text) <= _LONGEST_LIST:
        return text
    return f"{text_of(min(values.numbers))}..{text_of(max(values.numbers))} ({len(values.numbers)} values)"


def assumptions(timeline: Timeline) -> list[str]:
    """One sentence for each thing that the numbers rest on, the headline's left out."""
    schedule, costs = timeline.schedule, timeline.costs
    sentences = [_placement(schedule.placement), _flush(schedule), *_beside(schedule)]
    if timeline.measured:  # whatever costs are known, these times are not made of them
        return [*sentences, "times were read, not simulated"]
    sentences += _messages(costs)
    if costs.layers:
        sentences.append(f"{sum(costs.layers)} layers, per stage {_layers(costs.layers)}")
    kinds = schedule.kinds()
    if kinds & {OpKind.I, OpKind.W}:
        sentences.append("b is the full backward: I takes b - w, W takes w")
    if schedule.pairs:
        lasts = {
            "sum": "one block that takes the time of both",
            "max": "one block that takes the time of the longer",
            "split": "two ops back to back, each waiting for its own input",
        }
        fixed = f"one block that takes {text_of(costs.overlap)}" if not isinstance(costs.overlap, str) else ""
        sentences.append(f"an overlapped pair is {fixed or lasts[str(costs.overlap)]}")
    if OpKind.R in kinds:
        when = (
            "may run as soon as its forward is done"
            if schedule.early_recompute
            else "waits for what its backward waits for"
        )
        sentences.append(f"recomputation: F keeps its stage's input only; R takes f and {when}")
    if costs.reduce or costs.step_time:
        times = f"REDUCE takes {text_of(costs.reduce)} and STEP {text_of(costs.step_time)} per rank"
        alone = schedule.num_steps == 1 and not schedule.asynchronous
        delaying = "; where they delay other ops that is idle time, after the last of these they are outside elapsed"
        sentences.append(times + (", outside elapsed" if alone else delaying))
    if len(set(costs.microbatch_scale)) > 1:
        sentences.append("microbatches are unequal: every op takes its time x the microbatch's scale")
    if costs.source:
        sentences.append(f"costs from {costs.source}")
    return sentences


def _layers(layers: Sequence[int]) -> str:
    """`8 8 7 7`; `3 x8, 2 x8` where it would be long."""
    plain = " ".join(map(str, layers))
    if len(plain) <= _LONGEST_LIST:
        return plain
    return ", ".join(f"{count} x{len(list(stages))}" for count, stages in groupby(layers))


def _placement(placement: Placement) -> str:
    if placement.bidirectional:
        return "two copies of every stage: rank r holds stage r going down and stage P-1-r going up"
    if placement.num_stages == placement.num_ranks and placement.ranks == tuple(range(placement.num_ranks)):
        return "stage s on rank s"
    texts = {"loop": "stage s on rank s mod P (loop placement)", "v": "stages zig-zag over the ranks (V placement)"}
    listed = ", ".join(f"{stage}:{rank}" for stage, rank in enumerate(placement.ranks[:16]))
    more = ", ..." if placement.num_stages > 16 else ""
    return texts.get(placement.kind, f"placement as written (stage:rank {listed}{more})")


def _flush(schedule: Schedule) -> str:
    if schedule.asynchronous:
        return "no flush: every F and B carries the weight version it uses"
    wait = "all stages' gradients are" if schedule.joint_update else "its stage's gradients are"
    return f"flush: weights unchanged until every backward of the step is done; STEP waits until {wait} reduced"


def _beside(schedule: Schedule) -> list[str]:
    """What a registered schedule is not to be taken for."""
    known = entry(schedule.name).beside if schedule.name in REGISTRY else ""
    return [known] if known else []


def _messages(costs: Costs) -> list[str]:
    if not costs.has_communication:
        return ["messages take no time; one op at a time on a rank"]
    texts = {
        "latency": "a message takes c per hop, occupies no rank and does not contend",
        "serial": "a message takes c per hop; one at a time on each directed link, in the order produced",
        "blocking": "a message holds both its ranks for c",
    }
    return [texts[costs.link]]
