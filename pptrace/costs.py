"""Costs: how long an op lasts and a message travels. It owns THE duration rule and the one scaling to integer ticks.

Costs are exact rationals. `durations(schedule, costs)` turns them into whole ticks by position, once; no float and no
fraction goes further than this file.
"""

from __future__ import annotations

from bisect import bisect_left
from fractions import Fraction
from itertools import pairwise
from math import lcm
from typing import TYPE_CHECKING, NamedTuple

from pptrace.errors import ParameterError
from pptrace.model import BOUNDARY_KINDS, OpKind
from pptrace.rationals import text_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from pptrace.model import Placement, Schedule

MAX_TICKS = 2**53
"""Times stay below this, so that every JSON reader keeps them exact."""


class Values(NamedTuple):
    """One number, or a list of them, and what each stands for.

    `per` is "rank" (time of one microbatch on one rank, all its chunks; a value per rank), "op" (time of one op; a value
    per rank) or "stage" (time of one op; a value per stage).
    """

    numbers: tuple[Fraction, ...]
    per: str = "rank"

    @property
    def equal(self) -> Fraction | None:
        """The one value, or None where they differ."""
        return self.numbers[0] if len(set(self.numbers)) == 1 else None

    def of_op(self, placement: Placement, stage: int, rank: int) -> Fraction:
        """The share of one op of `stage` on `rank`."""
        if len(self.numbers) == 1:
            value = self.numbers[0]
        else:
            value = self.numbers[stage if self.per == "stage" else rank]
        return Fraction(value, placement.stages_per_rank(rank)) if self.per == "rank" else value

    def text(self) -> str:
        """`1`, or `1,2,3`."""
        return ",".join(text_of(number) for number in self.numbers)


def values(*numbers: Fraction | int | str, per: str = "rank") -> Values:
    """Shorthand: `values(1)`, `values("3/2", 2, per="op")`."""
    return Values(tuple(Fraction(number) for number in numbers), per)


class Sizes(NamedTuple):
    """Bytes, None where not known: an activation of one microbatch until its B (M_B) and, where the backward is split, what
    is left of it between I and W (`after_input`, M_W; as large as before where None), the tensor at a stage boundary, and
    of the stage's weights, their gradients and optimizer states."""

    activation: Values | None = None
    after_input: Values | None = None
    boundary: Values | None = None
    weights: Values | None = None
    gradients: Values | None = None
    optimizer: Values | None = None

    def missing(self) -> tuple[str, ...]:
        """The names of the parts whose size is not known."""
        parts = ("activation", "boundary", "weights", "gradients", "optimizer")
        return tuple(name for name in parts if getattr(self, name) is None)


class Costs(NamedTuple):
    """Everything that decides how long things take. `backward` is the full backward B = I + W, `weight_grad` its W part.

    `comm` is one latency, or one per link between ranks q and q+1 (a loop's last link, P-1 to 0, is the last value).
    `overlap` is what an overlapped pair lasts: "sum", "max", "split" (two ops back to back, each waiting for its own input) or
    a number (per "rank" or "op" as forward is). `link` is "latency" (messages do not contend) or "serial" (one at a time
    per directed pair of ranks, in the order produced) or "blocking" (a message holds both its ranks, see `blocking`).
    """

    forward: Values = values(1)
    backward: Values = values(1)
    weight_grad: Values = values(Fraction(1, 2))
    comm: tuple[Fraction, ...] = (Fraction(0),)
    reduce: Fraction = Fraction(0)
    step_time: Fraction = Fraction(0)
    overlap: str | Fraction = "sum"
    link: str = "latency"
    microbatch_scale: tuple[Fraction, ...] = ()
    unit: str = ""
    sizes: Sizes | None = None
    source: str = ""
    """Where the numbers come from, for the header: empty, or the name of a costs file."""

    def without_communication(self) -> Costs:
        return self._replace(comm=(Fraction(0),))

    @property
    def has_communication(self) -> bool:
        return any(self.comm)

    def op_time(self, kind: OpKind, placement: Placement, stage: int, rank: int) -> Fraction:
        """THE duration rule: the time of one op of `kind` and `stage` on `rank`, before any microbatch's own scale."""
        if kind in (OpKind.F, OpKind.R):
            return self.forward.of_op(placement, stage, rank)
        if kind is OpKind.B:
            return self.backward.of_op(placement, stage, rank)
        if kind is OpKind.W:
            return self.weight_grad.of_op(placement, stage, rank)
        if kind is OpKind.I:
            return self.backward.of_op(placement, stage, rank) - self.weight_grad.of_op(placement, stage, rank)
        per_rank = self.reduce if kind is OpKind.REDUCE else self.step_time
        return Fraction(per_rank, placement.stages_per_rank(rank))

    def pair_time(self, forward: Fraction, backward: Fraction, placement: Placement, rank: int) -> Fraction:
        """The time of an overlapped pair whose two ops alone take `forward` and `backward`."""
        if self.overlap == "max":
            return max(forward, backward)
        if isinstance(self.overlap, Fraction):
            return self.overlap / (placement.stages_per_rank(rank) if self.forward.per == "rank" else 1)
        return forward + backward


def check_costs(costs: Costs, placement: Placement, num_microbatches: int) -> None:
    """Raise `ParameterError` for a value out of range or a list of the wrong length."""
    for name, option in (("forward", "-f"), ("backward", "-b"), ("weight_grad", "-w")):
        given: Values = getattr(costs, name)
        wanted, noun = (placement.num_stages, "stage") if given.per == "stage" else (placement.num_ranks, "rank")
        label = f"{costs.source}: {name}" if given.per == "stage" and costs.source else f"{option} ({name})"
        if len(given.numbers) not in (1, wanted):
            _refuse(
                f"{label} has {len(given.numbers)} values for {_count(wanted, noun)}; "
                f"give one number, or one per {noun}"
            )
        for number in given.numbers:
            if number < 0 or (number == 0 and name != "weight_grad"):
                least = "zero or more" if name == "weight_grad" else "more than zero"
                _refuse(f"{label} must be {least}, got {text_of(number)}")
    for name in Sizes._fields:
        given_size: Values | None = getattr(costs.sizes, name) if costs.sizes else None
        if given_size is not None:
            _check_sizes(name, given_size, placement)
    for stage, rank in _stage_ranks(placement):
        full = costs.backward.of_op(placement, stage, rank)
        half = costs.weight_grad.of_op(placement, stage, rank)
        if half >= full:
            if costs.backward.per == "rank":  # the message speaks of the numbers that were given
                full, half = (time * placement.stages_per_rank(rank) for time in (full, half))
            _refuse(
                f"stage {stage}: w = {text_of(half)} is not less than b = {text_of(full)}; -b is the full backward "
                f"(I+W); did you mean -b {text_of(full + half)}?"
            )
    links = _link_counts(placement)
    if len(costs.comm) not in (1, *links):
        wanted_text = " or ".join(str(count) for count in links)
        _refuse(
            f"-c (comm) has {len(costs.comm)} values; give one number, or one per link between neighbouring ranks "
            f"({wanted_text} here)"
        )
    for name, number in (("-c (comm)", min(costs.comm)), ("--reduce", costs.reduce), ("--step-time", costs.step_time)):
        if number < 0:
            _refuse(f"{name} must be zero or more, got {text_of(number)}")
    overlap = costs.overlap
    if overlap <= 0 if isinstance(overlap, Fraction) else overlap not in ("sum", "max", "split"):
        shown = text_of(overlap) if isinstance(overlap, Fraction) else repr(overlap)[:40]
        _refuse(f"--overlap must be sum, max, split or a number above zero, got {shown}")
    if costs.link not in ("latency", "serial", "blocking"):
        _refuse(f"--link must be latency, serial or blocking, got {str(costs.link)[:40]!r}")
    if costs.microbatch_scale:
        if len(costs.microbatch_scale) != num_microbatches:
            _refuse(
                f"microbatch_scale has {len(costs.microbatch_scale)} values for {_count(num_microbatches, 'microbatch')}"
            )
        if min(costs.microbatch_scale) <= 0:
            _refuse(f"microbatch_scale must be more than zero, got {text_of(min(costs.microbatch_scale))}")


def _check_sizes(name: str, given: Values, placement: Placement) -> None:
    wanted, noun = (placement.num_stages, "stage") if given.per == "stage" else (placement.num_ranks, "rank")
    if len(given.numbers) not in (1, wanted):
        _refuse(
            f"bytes of {name}: {len(given.numbers)} values for {_count(wanted, noun)}; give one number, or one per {noun}"
        )
    if min(given.numbers) < 0:
        _refuse(f"bytes of {name} must be zero or more, got {text_of(min(given.numbers))}")


def _refuse(message: str) -> None:
    raise ParameterError(message)


def _count(number: int, noun: str) -> str:
    plural = {"microbatch": "microbatches"}.get(noun, noun + "s")
    return f"{number} {noun if number == 1 else plural}"


def _stage_ranks(placement: Placement) -> Iterator[tuple[int, int]]:
    """Every (stage, rank that holds it), both copies included."""
    for rank in range(placement.num_ranks):
        for stage in placement.stages(rank):
            yield stage, rank


def _link_counts(placement: Placement) -> tuple[int, ...]:
    """The lengths that a list of latencies may have: with or without the loop's last link."""
    num_ranks = placement.num_ranks
    loops_on_two = num_ranks == 2 and placement.kind == "loop"
    wraps = any(abs(a - b) not in (0, 1) or (loops_on_two and a > b) for a, b in _hops(placement))
    return (num_ranks,) if wraps else (max(num_ranks - 1, 1),)


def _hops(placement: Placement) -> list[tuple[int, int]]:
    return list(zip(placement.ranks, placement.ranks[1:], strict=False))


def link_latency(costs: Costs, placement: Placement, sender: int, receiver: int, *, wraps: bool = False) -> Fraction:
    """The latency between two ranks; `wraps` marks a loop's hop from rank P-1 to rank 0 (or back)."""
    if sender == receiver:
        return Fraction(0)
    if len(costs.comm) == 1:
        return costs.comm[0]
    if wraps:
        return costs.comm[-1]
    if abs(sender - receiver) == 1:
        return costs.comm[min(sender, receiver)]
    message = (
        f"-c has one value per link between neighbouring ranks, but stages on ranks {sender} and {receiver} "
        "exchange messages; give one number"
    )
    raise ParameterError(message)


def hop_latency(costs: Costs, placement: Placement, stage: int, *, up: bool = False) -> Fraction:
    """The latency of the hop between `stage` and `stage` + 1, the same both ways; `up`: in the copy that goes up."""
    ranks = placement.ranks[::-1] if up else placement.ranks
    a, b = ranks[stage], ranks[stage + 1]
    last = placement.num_ranks - 1
    return link_latency(costs, placement, a, b, wraps=(a, b) == (last, 0) and not up and placement.kind == "loop")


class Durations(NamedTuple):
    """Whole ticks, by position. `latencies[i]` is how long the output of op i travels; None where nothing travels.

    Both ops of an overlapped pair carry the duration of the block.
    """

    ticks: list[int]
    latencies: list[int] | None
    ticks_per_unit: int


def durations(schedule: Schedule, costs: Costs) -> Durations:
    """Scale `costs` once to whole ticks for every op of `schedule`, in time linear in its ops.

    Raises `ParameterError` where a cost cannot be used, or where the times would pass 2^53 ticks.
    """
    placement = schedule.placement
    check_costs(costs, placement, schedule.num_microbatches)
    halves = (False, True) if placement.bidirectional else (False,)
    num_stages = schedule.num_stages
    rank_of = {up: placement.ranks[::-1] if up else placement.ranks for up in halves}
    kinds = sorted(schedule.kinds())
    times = {
        (kind, stage, up): costs.op_time(kind, placement, stage, rank_of[up][stage])
        for kind in kinds
        for stage in range(num_stages)
        for up in halves
    }
    hops = {
        (stage, up): hop_latency(costs, placement, stage, up=up) for stage in range(num_stages - 1) for up in halves
    }
    pair_times = _pair_times(schedule, costs)
    scale = costs.microbatch_scale or (Fraction(1),)
    scaled = {time for (kind, _, _), time in times.items() if kind not in BOUNDARY_KINDS}
    denominators = {(time * factor).denominator for time in scaled for factor in set(scale)}
    denominators |= {time.denominator for (kind, _, _), time in times.items() if kind in BOUNDARY_KINDS}
    denominators |= {hop.denominator for hop in hops.values()} | {time.denominator for time in pair_times}
    unit = lcm(*denominators)

    by_code = _Filler(schedule, kinds)
    for (kind, stage, up), time in times.items():
        by_code.fill(kind, stage, up, [time] if kind in BOUNDARY_KINDS else [time * factor for factor in scale], unit)
    ticks = by_code.at_positions()
    for time, positions in pair_times.items():
        block = int(time * unit)
        for position in positions:
            ticks[position] = ticks[position + 1] = block

    latencies = None
    if any(hops.values()):
        travel = _Filler(schedule, kinds)
        for (stage, up), hop in hops.items():
            travel.fill(OpKind.F, stage, up, [hop], unit)
            travel.fill(OpKind.B, stage + 1, up, [hop], unit)
            travel.fill(OpKind.I, stage + 1, up, [hop], unit)
        latencies = travel.at_positions()

    if sum(ticks) + sum(latencies or ()) >= MAX_TICKS:
        named = f"f={costs.forward.text()} b={costs.backward.text()} w={costs.weight_grad.text()}"
        tick = (
            f"ticks of 1/{unit}" if unit < MAX_TICKS else "ticks that divide them all"
        )  # it may have thousands of digits
        message = (
            f"with {tick} the times would pass 2^53; use durations ({named[:120]}) "
            "with a smaller common denominator, or a larger unit"
        )
        raise ParameterError(message)
    return Durations(ticks, latencies, unit)


class _Filler:
    """A table by code, filled a (kind, stage) at a time and read by position."""

    def __init__(self, schedule: Schedule, kinds: Iterable[OpKind]) -> None:
        self.schedule = schedule
        self.kinds = frozenset(kinds)
        self.width = schedule.num_microbatches * schedule.num_steps
        self.table = [0] * ((max(self.kinds, default=0) + 1) * schedule.num_stages * self.width)

    def fill(self, kind: OpKind, stage: int, up: bool, numbers: Sequence[Fraction], unit: int) -> None:
        """Set all microbatches of (kind, stage) that run on this copy; `numbers` is one value, or one per microbatch."""
        if kind not in self.kinds:
            return
        per_step = [int(number * unit) for number in numbers]
        num = self.schedule.num_microbatches
        row = (per_step if len(per_step) == num else per_step * num) * self.schedule.num_steps
        base = self.schedule.coder.base(kind, stage)
        if self.schedule.placement.bidirectional:
            first_up = (num + 1) // 2
            for start in range(0, self.width, num):
                low, high = (start + first_up, start + num) if up else (start, start + first_up)
                self.table[base + low : base + high] = row[low:high]
        else:
            self.table[base : base + self.width] = row

    def at_positions(self) -> list[int]:
        return list(map(self.table.__getitem__, self.schedule.codes))


def _pair_times(schedule: Schedule, costs: Costs) -> dict[Fraction, list[int]]:
    """By duration, the first positions of the overlapped pairs that last so long. Both ops of a pair are of one rank."""
    if not schedule.pairs or costs.overlap == "split":
        return {}
    codes, num = schedule.codes, schedule.num_microbatches
    width = num * schedule.num_steps
    result: dict[Fraction, list[int]] = {}
    pairs = sorted(schedule.pairs)
    for rank, (start, stop) in enumerate(pairwise(schedule.rank_starts)):
        alike: dict[tuple[int, ...], list[int]] = {}  # by the two rows, and the microbatches where those differ in cost
        for first in pairs[bisect_left(pairs, start) : bisect_left(pairs, stop)]:
            a, b = codes[first], codes[first + 1]
            numbers = (a % num, b % num) if costs.microbatch_scale else ()
            alike.setdefault((a // width, b // width, *numbers), []).append(first)
        for key, positions in alike.items():
            alone = [
                costs.op_time(OpKind(row // schedule.num_stages), schedule.placement, row % schedule.num_stages, rank)
                for row in key[:2]
            ]
            if costs.microbatch_scale:
                alone = [time * costs.microbatch_scale[m] for time, m in zip(alone, key[2:], strict=True)]
            time = costs.pair_time(alone[0], alone[1], schedule.placement, rank)
            result.setdefault(time, []).extend(positions)
    return result
