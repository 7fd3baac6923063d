"""Costs: how long an op lasts and a message travels. It owns THE duration rule, as exact rationals; durations.py turns
them into whole ticks."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, NamedTuple

from pptrace.errors import ParameterError
from pptrace.model import OpKind
from pptrace.rationals import text_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pptrace.model import Placement


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
    layers: tuple[int, ...] = ()
    """How many layers every stage has, where that is known: the times of a stage are then of all of them together."""
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

    def fixed_pair_time(self, placement: Placement, rank: int) -> Fraction | None:
        """The time of an overlapped pair on `rank` where it is given; None where it is the sum, or the larger, of its ops'."""
        if not isinstance(self.overlap, Fraction):
            return None
        held = placement.stages_per_rank(rank) if self.forward.per == "rank" else 1
        return self.overlap / (held or 1)  # a rank of a file may hold no stage


def check_costs(costs: Costs, placement: Placement, num_microbatches: int) -> None:
    """Raise `ParameterError` for a value out of range or a list of the wrong length."""
    for name, option in (("forward", "-f"), ("backward", "-b"), ("weight_grad", "-w")):
        given: Values = getattr(costs, name)
        wanted, noun = (placement.num_stages, "stage") if given.per == "stage" else (placement.num_ranks, "rank")
        if given.per not in ("rank", "op", "stage"):
            _refuse(f"{name}: costs are per rank, op or stage, got {given.per[:40]!r}")
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
    if costs.layers and len(costs.layers) != placement.num_stages:
        _refuse(f"layers: {len(costs.layers)} numbers for {_count(placement.num_stages, 'stage')}; give one per stage")
    for name in Sizes._fields:
        given_size: Values | None = getattr(costs.sizes, name) if costs.sizes else None
        if given_size is not None:
            _check_sizes(name, given_size, placement)
    if costs.sizes and costs.sizes.after_input and not costs.sizes.activation:
        _refuse("--after-input-bytes is what I leaves of --activation-bytes; give both")
    for stage, rank in _distinct_stages(costs, placement):
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


def _distinct_stages(costs: Costs, placement: Placement) -> Iterator[tuple[int, int]]:
    """Every (stage, rank) whose times can differ; where all ranks are alike, one for each number of stages on a rank."""
    alike = len(costs.backward.numbers) == len(costs.weight_grad.numbers) == 1
    seen = set()
    for stage, rank in _stage_ranks(placement):
        shared = placement.stages_per_rank(rank)
        if not alike or shared not in seen:
            yield stage, rank
        seen.add(shared)


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
