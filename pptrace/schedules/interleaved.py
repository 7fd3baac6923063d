"""Several chunks on every rank in loop placement: `interleaved` and `looped-bfs`, and the groups of microbatches that the
interleaved family shares. It owns the groups' rules; it does not know what an op costs."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from pptrace.errors import ParameterError
from pptrace.model import Coder, OpKind, Placement, Schedule
from pptrace.schedules.one_f_one_b import warmup_then_pairs
from pptrace.schedules.registry import Claim, Condition, Entry, EqualCosts, Params

if TYPE_CHECKING:
    from collections.abc import Sequence


def build_interleaved(params: Params) -> Schedule:
    """min(2(P-1-r) + (v-1)g, vM) forwards, then forward-backward pairs, then the backwards that are left.

    Microbatches go in groups of g; inside a group each chunk takes all of the group before the next chunk does.
    Backwards: the same, with the chunks in reverse. One op of each chunk is one column:

        time   |0   1   2   3   4   5   6   7   8   9
        rank 0 |0F0 0F1 2F0 2F1 .   2B0 .   2B1 0B0 0B1
        rank 1 |.   1F0 1F1 3F0 3B0 3F1 3B1 1B0 1B1 .

    With one chunk this is eager-1f1b, not 1f1b. Source: Narayanan et al. 2021, arXiv 2104.04473, section 2.2;
    Megatron-LM `forward_backward_pipelining_with_interleaving`; PyTorch `ScheduleInterleaved1F1B`.
    """
    num_ranks, num, chunks = params.num_ranks, params.num_microbatches, params.num_chunks or 1
    group = group_size(params)
    coder = Coder(num_ranks * chunks, num)
    orders = []
    for rank in range(num_ranks):
        stages = range(rank, num_ranks * chunks, num_ranks)
        forwards = in_groups([coder.run(OpKind.F, stage) for stage in stages], group)
        backwards = in_groups([coder.run(OpKind.B, stage) for stage in stages[::-1]], group)
        warmup = min(2 * (num_ranks - 1 - rank) + (chunks - 1) * group, chunks * num)
        orders.append(warmup_then_pairs(forwards, backwards, warmup))
    return Schedule("interleaved", Placement.loop(num_ranks, chunks), num, orders, options={"group": group})


def build_looped_bfs(params: Params) -> Schedule:
    """Breadth first: all M forwards of a chunk before the next chunk; then backwards, chunks and microbatches reversed.

        time   |0   1   2   3   4   5   6   7   8   9
        rank 0 |0F0 0F1 2F0 2F1 .   .   2B1 2B0 0B1 0B0
        rank 1 |.   1F0 1F1 3F0 3F1 3B1 3B0 1B1 1B0 .

    Source: Lamy-Poirier 2022, arXiv 2211.05953; the backwards' order is that of PyTorch `ScheduleLoopedBFS`.
    """
    num_ranks, num, chunks = params.num_ranks, params.num_microbatches, params.num_chunks or 1
    coder = Coder(num_ranks * chunks, num)
    orders = []
    for rank in range(num_ranks):
        stages = range(rank, num_ranks * chunks, num_ranks)
        order: list[int] = []
        for stage in stages:
            order += coder.run(OpKind.F, stage)
        for stage in stages[::-1]:
            order += coder.run(OpKind.B, stage)[::-1]
        orders.append(order)
    return Schedule("looped-bfs", Placement.loop(num_ranks, chunks), num, orders)


def in_groups(runs: Sequence[range], group: int) -> list[int]:
    """Groups of `group` microbatches (the last may be smaller); in each group, one run after another."""
    order: list[int] = []
    for first in range(0, len(runs[0]), group):
        for run in runs:
            order += run[first : first + group]
    return order


def group_size(params: Params) -> int:
    """The group asked for, or the default."""
    return params.group or default_group(params.num_ranks, params.num_microbatches)


def default_group(num_ranks: int, num_microbatches: int) -> int:
    """The smallest g >= P with M mod g = 0 or M mod g >= P; M where M <= P.

    Groups like these never deadlock and lose no time, and they are those of PyTorch and of Megatron-LM wherever those
    accept the sizes.
    """
    if num_microbatches <= num_ranks:
        return num_microbatches
    return next(g for g in range(num_ranks, num_microbatches + 1) if full_groups(num_ranks, num_microbatches, g))


def full_groups(num_ranks: int, num_microbatches: int, group: int) -> bool:
    """Whether every group, the last one too, keeps all ranks busy for as long as a microbatch takes to come round."""
    if num_microbatches <= num_ranks:
        return group == num_microbatches
    return group >= num_ranks and (num_microbatches % group == 0 or num_microbatches % group >= num_ranks)


def check_group(name: str, params: Params) -> None:
    """Raise `ParameterError` for a group larger than the step."""
    if params.group is not None and params.group > params.num_microbatches:
        megatron = " (Megatron-LM refuses M < P)" if params.num_microbatches < params.num_ranks else ""
        message = (
            f"{name} with --group {params.group} needs M >= {params.group}, got M = {params.num_microbatches}; "
            f"leave --group out, or raise M{megatron}"
        )
        raise ParameterError(message)


def check_interleaved(params: Params) -> None:
    check_group("interleaved", params)


def remedy(params: Params) -> str:
    """What to do where groups of the size asked for deadlock or lose time; empty where the default is in use."""
    default = default_group(params.num_ranks, params.num_microbatches)
    if group_size(params) == default:
        return ""
    return f"leave --group out (groups of {default} never deadlock)"


def without_group(params: Params) -> Params | None:
    """The same with the default groups, or None where those are in use."""
    default = default_group(params.num_ranks, params.num_microbatches)
    return None if group_size(params) == default else params._replace(group=None)


def groups_condition(params: Params) -> Condition:
    """The one assumption on groups that the closed forms make."""
    holds = params.num_chunks == 1 or full_groups(params.num_ranks, params.num_microbatches, group_size(params))
    text = "v = 1, or groups of g >= P with M mod g = 0 or >= P" + (
        " (g = M for M <= P)" if params.num_microbatches <= params.num_ranks else ""
    )
    return Condition(text, holds)


def claims_interleaved(params: Params, costs: EqualCosts) -> list[Claim]:
    p, m, v = params.num_ranks, params.num_microbatches, params.num_chunks or 1
    ahead = (v - 1) * group_size(params)
    peaks = tuple(Fraction(min(v * m, 2 * (p - 1 - r) + ahead + 1)) for r in range(p))
    return [
        *_looped_times(params, costs, _hidden_latency(params, costs), (groups_condition(params),)),
        Claim("peak_activations", "min(v*M, 2*(P-1-r)+(v-1)*g+1)", peaks, of_order=True),
    ]


def claims_looped_bfs(params: Params, costs: EqualCosts) -> list[Claim]:
    p, m, v = params.num_ranks, params.num_microbatches, params.num_chunks or 1
    return [
        *_looped_times(params, costs, ("", Fraction(0), no_latency(params, costs)), ()),
        Claim("peak_activations", "v*M", (Fraction(v * m),) * p, of_order=True),
    ]


def no_latency(params: Params, costs: EqualCosts) -> Condition:
    return Condition("c = 0", costs.c == 0 or params.num_ranks == 1)


def _hidden_latency(params: Params, costs: EqualCosts) -> tuple[str, Fraction, Condition]:
    """What latency adds where the order hides the rest of it: (text, time, condition)."""
    p, m, v, c = params.num_ranks, params.num_microbatches, params.num_chunks or 1, costs.c
    if p == 1:
        return "", Fraction(0), no_latency(params, costs)
    if v == 1:
        return " + 2*(P-1)*c", 2 * (p - 1) * c, Condition("2c <= f+b", 2 * c <= costs.f + costs.b)
    hidden = m % p == 0 and group_size(params) == p and c * v <= min(costs.f, costs.b)
    text = "c = 0, or c <= min(f,b)/v and M mod P = 0 in groups of P"
    return " + 2*(v*P-1)*c", 2 * (v * p - 1) * c, Condition(text, c == 0 or hidden)


def _looped_times(
    params: Params, costs: EqualCosts, latency: tuple[str, Fraction, Condition], conditions: tuple[Condition, ...]
) -> list[Claim]:
    """The published forms; where those fail because M < P, the general one before them."""
    p, m, v = params.num_ranks, params.num_microbatches, params.num_chunks or 1
    work = costs.f + costs.b
    late_text, late, late_condition = latency
    general = (v * max(m, p) + min(m, p) - 1) * work / v + late
    published = m * work + (p - 1) * work / v + late
    enough = (*([Condition("M >= P", m >= p)] if v > 1 else []), *conditions)
    still = (*enough, no_latency(params, costs))
    few = Claim("elapsed", f"(v*max(M,P)+min(M,P)-1)*(f+b)/v{late_text}", (general,), (*conditions, late_condition))
    return [
        *([few] if m < p and v > 1 else []),
        Claim("elapsed", f"M*(f+b) + (P-1)*(f+b)/v{late_text}", (published,), (*enough, late_condition)),
        Claim("bubble_over_elapsed", "(P-1)/(v*M+P-1)", (Fraction(p - 1, v * m + p - 1),), still),
        Claim("bubble_over_ideal", "(P-1)/(v*M)", (Fraction(p - 1, v * m),), still),
    ]


ENTRIES = {
    "interleaved": Entry(
        name="interleaved",
        summary="1f1b with v chunks on every rank: a smaller bubble for more messages and activations",
        build=build_interleaved,
        constraints="any P, M, v; --group 1..M (default: the smallest g >= P with M mod g = 0 or >= P; M if M <= P)",
        makespan="(v*max(M,P)+min(M,P)-1)*(f+b)/v, default groups; + 2*(v*P-1)*c if g = P, M mod P = 0, c <= min(f,b)/v",
        bubble="(P-1)*(f+b)/v if M >= P",
        peak="min(v*M, 2*(P-1-r)+(v-1)*g+1) chunks",
        source="arXiv 2104.04473; Megatron-LM, PyTorch ScheduleInterleaved1F1B",
        claims=claims_interleaved,
        check=check_interleaved,
        options=("chunks", "group"),
        default_chunks=2,
        remedy=remedy,
        better=without_group,
    ),
    "looped-bfs": Entry(
        name="looped-bfs",
        summary="breadth first: every chunk takes all microbatches before the next one does",
        build=build_looped_bfs,
        constraints="any P, M, v",
        makespan="(v*max(M,P)+min(M,P)-1)*(f+b)/v",
        bubble="(P-1)*(f+b)/v if M >= P",
        peak="v*M chunks",
        source="arXiv 2211.05953; PyTorch ScheduleLoopedBFS",
        claims=claims_looped_bfs,
        options=("chunks",),
        default_chunks=2,
    ),
}
