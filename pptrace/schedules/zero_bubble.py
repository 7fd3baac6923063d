"""Schedules that split the backward and delay the weight half into the bubble, in loop placement: `zb-h1`, `zb-h2` and
`interleaved-zb`. One rule builds all three; they differ in their warm-up and in how long W is put off."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise
from typing import TYPE_CHECKING

from pptrace.model import Coder, OpKind, Placement, Schedule
from pptrace.schedules.interleaved import check_group, group_size, in_groups, no_latency, remedy, without_group
from pptrace.schedules.registry import Claim, Condition, Entry, EqualCosts, Params

if TYPE_CHECKING:
    from collections.abc import Sequence


def build_zb_h1(params: Params) -> Schedule:
    """min(M, P-r) forwards; then for k = 0, 1, ..: I_k, W_(k-r) if k >= r, the next forward; then the W that are left.

        time    |0  1  2  3  4  5  6  7  8  9
        stage 0 |F0 F1 .  I0 W0 F2 I1 W1 I2 W2
        stage 1 |.  F0 I0 F1 I1 W0 F2 I2 W1 W2

    Source: Qi et al. 2023, arXiv 2401.10241, section 2, figure 3 (the paper's B is this I); JaxPP `ZeroBubble`; PyTorch
    `ScheduleInterleavedZeroBubble` with one stage on a rank.
    """
    num_ranks = params.num_ranks
    return _one_chunk("zb-h1", params, [(num_ranks - rank, rank) for rank in range(num_ranks)])


def build_zb_h2(params: Params) -> Schedule:
    """min(M, 2(P-r)-1) forwards; then as zb-h1, with W put off by 2r: no rank waits between its first and its last op.

        time    |0  1  2  3  4  5  6  7  8  9
        stage 0 |F0 F1 F2 I0 W0 I1 W1 I2 W2 .
        stage 1 |.  F0 I0 F1 I1 F2 I2 W0 W1 W2

    Source: Qi et al. 2023, arXiv 2401.10241, section 2, figure 3.
    """
    num_ranks = params.num_ranks
    return _one_chunk("zb-h2", params, [(2 * (num_ranks - rank) - 1, 2 * rank) for rank in range(num_ranks)])


def build_interleaved_zb(params: Params) -> Schedule:
    """Chunks and groups as interleaved; min(v*M, (v-1)g + P-r) forwards, then as zb-h1. With one chunk it is zb-h1.

        time   |0   1   2   3   4   5   6   7   8   9   10  11  12
        rank 0 |0F0 0F1 2F0 2F1 .   2I0 2W0 2I1 2W1 0I0 0W0 0I1 0W1
        rank 1 |.   1F0 1F1 3F0 3I0 3F1 3I1 3W0 1I0 3W1 1I1 1W0 1W1

    Source: PyTorch `ScheduleInterleavedZeroBubble`.
    """
    num_ranks, num, chunks = params.num_ranks, params.num_microbatches, params.num_chunks or 1
    group = group_size(params)
    coder = Coder(num_ranks * chunks, num)
    orders = []
    for rank in range(num_ranks):
        stages = range(rank, num_ranks * chunks, num_ranks)
        forwards = in_groups([coder.run(OpKind.F, stage) for stage in stages], group)
        inputs = in_groups([coder.run(OpKind.I, stage) for stage in stages[::-1]], group)
        weights = in_groups([coder.run(OpKind.W, stage) for stage in stages[::-1]], group)
        warmup = (chunks - 1) * group + num_ranks - rank
        orders.append(delay_weights(forwards, inputs, weights, warmup, rank))
    return Schedule("interleaved-zb", Placement.loop(num_ranks, chunks), num, orders, options={"group": group})


def _one_chunk(name: str, params: Params, plans: Sequence[tuple[int, int]]) -> Schedule:
    """`plans` has the warm-up and the delay of W for each rank."""
    coder = Coder(params.num_ranks, params.num_microbatches)
    orders = [
        delay_weights(coder.run(OpKind.F, rank), coder.run(OpKind.I, rank), coder.run(OpKind.W, rank), warmup, delay)
        for rank, (warmup, delay) in enumerate(plans)
    ]
    return Schedule(name, Placement.loop(params.num_ranks), params.num_microbatches, orders)


def delay_weights(
    forwards: Sequence[int], inputs: Sequence[int], weights: Sequence[int], warmup: int, delay: int
) -> list[int]:
    """`warmup` forwards; for k = 0, 1, ..: input half k, weight half k - `delay`, the next forward, each as long as there is
    one; then the weight halves that are left."""
    num = len(inputs)
    warmup, delay = min(warmup, num), min(delay, num)
    order = [*forwards[:warmup]]
    # between two cuts every k has the same ops, so that the stretch is a few slices and not a loop
    for first, last in pairwise(sorted({0, delay, num - warmup, num})):
        columns = [inputs[first:last]]
        if first >= delay:
            columns.append(weights[first - delay : last - delay])
        if first < num - warmup:
            columns.append(forwards[warmup + first : warmup + last])
        order += in_turn(*columns)
    order += weights[num - delay :]
    return order


def in_turn(*columns: Sequence[int]) -> list[int]:
    """The first of every column, then the second of every column, ..; all columns have one length."""
    width = len(columns)
    order = [0] * (width * len(columns[0]))
    for index, column in enumerate(columns):
        order[index::width] = column
    return order


def check_interleaved_zb(params: Params) -> None:
    check_group("interleaved-zb", params)


def claims_zb_h1(params: Params, costs: EqualCosts) -> list[Claim]:
    p, m = params.num_ranks, params.num_microbatches
    bubble = (p - 1) * (costs.f + costs.i - costs.w)
    whole = m * (costs.f + costs.b) + bubble
    enough, few = Condition("M >= P", m >= p), Condition("M < P", m < p)
    short = Condition("w <= min(f,i)", costs.w <= min(costs.f, costs.i))
    still = no_latency(params, costs)
    if m >= p:
        times = [
            Claim("elapsed", "M*(f+b) + (P-1)*(f+i-w)", (whole,), (enough, short, still)),
            Claim("bubble_time", "(P-1)*(f+i-w)", (bubble,), (enough, short, still)),
            Claim(
                "longest_span",
                "M*(f+b) + (P-1)*(f+i-w)",
                (whole,),
                (enough, Condition("w <= f", costs.w <= costs.f), still),
            ),
        ]
    else:
        few_elapsed = (m + p - 1) * (costs.f + costs.i) + costs.w
        times = [
            Claim("elapsed", "(M+P-1)*(f+i) + w", (few_elapsed,), (few, short, still)),
            Claim("bubble_time", "(P-1)*(f+i-w)", (bubble,), (enough, short, still)),
        ]
    return [
        *times,
        Claim("peak_activations", "min(M, P) until W ends", (Fraction(min(m, p)),) * p, of_order=True),
        *_bytes_claim("(P-r)*M_B + r*M_W", [(p - r, r) for r in range(p)], costs, (enough, still)),
    ]


def claims_zb_h2(params: Params, costs: EqualCosts) -> list[Claim]:
    """The paper measures the longest span of a rank, not the makespan: the ranks start one after another by design."""
    p, m = params.num_ranks, params.num_microbatches
    span = m * (costs.f + costs.b) + max(Fraction(0), (p - 1) * (costs.f + costs.i - 2 * costs.w))
    enough = Condition("M >= 2P-1", m >= 2 * p - 1)
    still = no_latency(params, costs)
    return [
        Claim(
            "longest_span",
            "M*(f+b) + max(0, (P-1)*(f+i-2w))",
            (span,),
            (enough, Condition("w <= f", costs.w <= costs.f), still),
        ),
        Claim("peak_activations", "min(M, 2P-1) until W ends", (Fraction(min(m, 2 * p - 1)),) * p, of_order=True),
        *_bytes_claim("(2P-2r-1)*M_B + 2r*M_W", [(2 * p - 2 * r - 1, 2 * r) for r in range(p)], costs, (enough, still)),
    ]


def claims_interleaved_zb(params: Params, costs: EqualCosts) -> list[Claim]:
    if params.num_chunks == 1:
        return claims_zb_h1(params, costs)
    p, m, v = params.num_ranks, params.num_microbatches, params.num_chunks or 1
    peak = Fraction(min(v * m, (v - 1) * group_size(params) + p))
    return [Claim("peak_activations", "min(v*M, (v-1)*g+P) until W ends", (peak,) * p, of_order=True)]


def _bytes_claim(
    formula: str, counts: Sequence[tuple[int, int]], costs: EqualCosts, conditions: tuple[Condition, ...]
) -> list[Claim]:
    """`counts` has, for each rank, how many activations are whole and how many are down to what W needs."""
    if costs.activation is None or costs.kept_for_w is None:
        return []
    whole, kept = costs.activation, costs.kept_for_w
    values = tuple(Fraction(full * whole + rest * kept) for full, rest in counts)
    return [Claim("peak_activation_bytes", formula, values, conditions)]


ENTRIES = {
    "interleaved-zb": Entry(
        name="interleaved-zb",
        summary="interleaved chunks with the backward split; with one chunk it is zb-h1",
        build=build_interleaved_zb,
        constraints="any P, M, v; --group 1..M, default as interleaved",
        makespan="from the trace",
        bubble="from the trace",
        peak="min(v*M, (v-1)*g+P) chunks until W",
        source="PyTorch ScheduleInterleavedZeroBubble",
        claims=claims_interleaved_zb,
        check=check_interleaved_zb,
        options=("chunks", "group"),
        default_chunks=2,
        splits=True,
        remedy=remedy,
        better=without_group,
    ),
    "zb-h1": Entry(
        name="zb-h1",
        summary="zero bubble with the memory of 1f1b: W fills two thirds of the bubble where f = i = w",
        build=build_zb_h1,
        constraints="any P, M",
        makespan="M*(f+b) + (P-1)*(f+i-w) if M >= P; (M+P-1)*(f+i) + w if M < P; w <= min(f,i)",
        bubble="(P-1)*(f+i-w) if M >= P, w <= min(f,i)",
        peak="min(M, P) until W; bytes (P-r)*M_B + r*M_W if M >= P",
        source="arXiv 2401.10241; JaxPP ZeroBubble",
        claims=claims_zb_h1,
        splits=True,
    ),
    "zb-h2": Entry(
        name="zb-h2",
        summary="zero bubble with twice the memory: no rank idles between its first and its last op",
        build=build_zb_h2,
        constraints="any P, M; M >= 2P-1 for the published figures",
        makespan="longest span M*(f+b) + max(0, (P-1)*(f+i-2w)) if M >= 2P-1, w <= f; the makespan has the fill on top",
        bubble="of the span: max(0, (P-1)*(f+i-2w)) if M >= 2P-1, w <= f",
        peak="min(M, 2P-1) until W; bytes (2P-2r-1)*M_B + 2r*M_W if M >= 2P-1",
        source="arXiv 2401.10241",
        claims=claims_zb_h2,
        splits=True,
    ),
}
