"""One forward, one backward, without chunks: `1f1b` (with its flush) and `eager-1f1b`."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from pptrace.model import Coder, OpKind, Placement, Schedule
from pptrace.schedules.registry import Claim, Condition, Entry, EqualCosts, Params

if TYPE_CHECKING:
    from collections.abc import Sequence


def build_1f1b(params: Params) -> Schedule:
    """min(M, P-1-r) forwards, then forward-backward pairs, then the backwards that are left.

        time    |0  1  2  3  4  5  6  7
        stage 0 |F0 F1 .  B0 F2 B1 .  B2
        stage 1 |.  F0 B0 F1 B1 F2 B2 .

    Source: PipeDream-Flush, arXiv 2006.09503; Megatron-LM `forward_backward_pipelining_without_interleaving`.
    """
    return _alternating("1f1b", params, hops_ahead=1)


def build_eager(params: Params) -> Schedule:
    """As 1f1b with a warm-up of min(M, 2(P-1-r)) forwards, so that messages have a step to travel.

        time    |0  1  2  3  4  5  6  7
        stage 0 |F0 F1 F2 B0 .  B1 .  B2
        stage 1 |.  F0 B0 F1 B1 F2 B2 .

    Source: Zhuang et al. 2022, arXiv 2211.05322; JaxPP `Eager1F1B`.
    """
    return _alternating("eager-1f1b", params, hops_ahead=2)


def _alternating(name: str, params: Params, hops_ahead: int) -> Schedule:
    num_ranks, num = params.num_ranks, params.num_microbatches
    coder = Coder(num_ranks, num)
    orders = []
    for rank in range(num_ranks):
        warmup = min(num, hops_ahead * (num_ranks - 1 - rank))
        orders.append(warmup_then_pairs(coder.run(OpKind.F, rank), coder.run(OpKind.B, rank), warmup))
    return Schedule(name, Placement.loop(num_ranks), num, orders)


def warmup_then_pairs(forwards: Sequence[int], backwards: Sequence[int], warmup: int) -> list[int]:
    """`warmup` forwards, then forward and backward in turn until the forwards are used up, then the other backwards."""
    pairs = len(forwards) - warmup
    steady = [0] * (2 * pairs)
    steady[0::2] = forwards[warmup:]
    steady[1::2] = backwards[:pairs]
    return [*forwards[:warmup], *steady, *backwards[pairs:]]


def claims_1f1b(params: Params, costs: EqualCosts) -> list[Claim]:
    p, m = params.num_ranks, params.num_microbatches
    hops = (p - 1) + (m - 1) - -(-(m - 1) // p)
    return [
        Claim(
            "elapsed",
            "(M+P-1)*(f+b) + 2*c*((P-1)+(M-1)-ceil((M-1)/P))",
            ((m + p - 1) * (costs.f + costs.b) + 2 * costs.c * hops,),
        ),
        *_ratios(p, m, costs),
        Claim("peak_activations", "min(M, P-r)", tuple(Fraction(min(m, p - r)) for r in range(p)), of_order=True),
    ]


def claims_eager(params: Params, costs: EqualCosts) -> list[Claim]:
    p, m = params.num_ranks, params.num_microbatches
    work = costs.f + costs.b
    return [
        Claim(
            "elapsed",
            "(M+P-1)*(f+b) + 2*(P-1)*c",
            ((m + p - 1) * work + 2 * (p - 1) * costs.c,),
            (Condition("2c <= f+b", 2 * costs.c <= work),),
        ),
        *_ratios(p, m, costs),
        Claim(
            "peak_activations",
            "min(M, 2(P-r)-1)",
            tuple(Fraction(min(m, 2 * (p - r) - 1)) for r in range(p)),
            of_order=True,
        ),
    ]


def _ratios(p: int, m: int, costs: EqualCosts) -> list[Claim]:
    no_latency = (Condition("c = 0", costs.c == 0),)
    return [
        Claim("bubble_over_elapsed", "(P-1)/(M+P-1)", (Fraction(p - 1, m + p - 1),), no_latency, of_sizes=True),
        Claim("bubble_over_ideal", "(P-1)/M", (Fraction(p - 1, m),), no_latency, of_sizes=True),
    ]


ENTRIES = {
    "1f1b": Entry(
        name="1f1b",
        summary="one forward, one backward, then a flush",
        build=build_1f1b,
        constraints="any P, M (PyTorch refuses M < P)",
        makespan="(M+P-1)*(f+b) + 2*c*((P-1)+(M-1)-ceil((M-1)/P))",
        bubble="(P-1)*(f+b)",
        peak="min(M, P-r)",
        source="PipeDream-Flush, arXiv 2006.09503; Megatron-LM, PyTorch Schedule1F1B",
        claims=claims_1f1b,
        beside="not pipedream, which has no flush and stashes weight versions",
    ),
    "eager-1f1b": Entry(
        name="eager-1f1b",
        summary="1f1b with twice the warm-up, which hides latency",
        build=build_eager,
        constraints="any P, M",
        makespan="(M+P-1)*(f+b) + 2*(P-1)*c where 2c <= f+b",
        bubble="(P-1)*(f+b)",
        peak="min(M, 2(P-r)-1)",
        source="arXiv 2211.05322; JaxPP Eager1F1B",
        claims=claims_eager,
    ),
}
