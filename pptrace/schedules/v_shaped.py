"""`v-half` and `v-min`: V placement with half, or a third, of the memory of 1f1b. It owns the offsets that make them
different; how an order comes of the offsets is v_plan.py's."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from pptrace.model import Coder, Placement, Schedule
from pptrace.schedules.registry import Claim, Condition, Entry, EqualCosts, Params
from pptrace.schedules.v_plan import orders

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pptrace.schedules.v_plan import Offsets


def build_v_half(params: Params) -> Schedule:
    """Half the activations of 1f1b.

        time   |0   1   2   3   4   5   6   7   8   9   10  11  12  13  14
        rank 0 |0F0 0F1 .   3F0 3I0 3W0 3F1 .   0I0 3I1 3W1 0W0 .   0I1 0W1
        rank 1 |.   1F0 2F0 1F1 2F1 2I0 2W0 1I0 1W0 .   2I1 2W1 1I1 1W1 .

    Source: Qi et al. 2024, arXiv 2405.15362; the zero-bubble repository, `scheduler/zbv_greedy.py`.
    """
    p = params.num_ranks
    wait = 3 if p % 2 == 0 else 0
    return _build(
        "v-half", params, [(2 * r, 3 * p - r - 2, 3 * p + wait + 2 * r - 1, 6 * p + wait - r - 2) for r in range(p)]
    )


def build_v_min(params: Params) -> Schedule:
    """A third of the activations of 1f1b, the least that a V can do with.

        time   |0   1   2   3   4   5   6   7   8   9   10  11  12  13  14
        rank 0 |0F0 0F1 .   3F0 3I0 3W0 .   0I0 0W0 3F1 3I1 3W1 .   0I1 0W1
        rank 1 |.   1F0 2F0 .   .   2I0 1I0 1F1 2F1 2W0 1W0 2I1 1I1 2W1 1W1

    Source: Qi et al. 2024, arXiv 2405.15362; the zero-bubble repository, `scheduler/zbv_greedy.py`.
    """
    p = params.num_ranks
    wait = 2 if p % 3 == 0 else 0
    return _build("v-min", params, [(r, 2 * p - r - 1, 2 * p + wait + r, 4 * p + wait - r - 1) for r in range(p)])


def _build(name: str, params: Params, offsets: Sequence[Offsets]) -> Schedule:
    num_ranks, num = params.num_ranks, params.num_microbatches
    planned = orders(offsets, Coder(2 * num_ranks, num), num)
    return Schedule(name, Placement.zigzag(num_ranks), num, planned)


def planning_work(params: Params) -> int:
    """Outside the steady part each op is moved over as many ticks as there are ranks (v_plan.py), some sixteen in the time
    that an op takes elsewhere: seconds up to P = 256, minutes for P = 512."""
    return params.num_ranks**2 * min(params.num_ranks, params.num_microbatches) // 16


def claims_v_half(params: Params, _: EqualCosts) -> list[Claim]:
    return [_peak_claim(params, 2, "floor((P+2)/2)")]


def claims_v_min(params: Params, _: EqualCosts) -> list[Claim]:
    return [_peak_claim(params, 3, "floor((P+4)/3)")]


def _peak_claim(params: Params, part: int, formula: str) -> Claim:
    p = params.num_ranks
    return Claim(
        "peak_activations",
        f"2*{formula} chunks on the fullest rank, until W ends",
        (Fraction(2 * ((p + 2 * part - 2) // part)),),
        (Condition("M >= 2P", params.num_microbatches >= 2 * p),),
        of_order=True,
        of_sizes=True,
        largest=True,
    )


ENTRIES = {
    "v-half": Entry(
        name="v-half",
        summary="half the memory of 1f1b: two chunks in a V, backward split",
        build=build_v_half,
        constraints="any P, M; two chunks on every rank; M >= 2P for the published peak",
        makespan="from the trace",
        bubble="from the trace",
        peak="fullest rank: 2*floor((P+2)/2) chunks if M >= 2P",
        source="arXiv 2405.15362; zero-bubble repository, zbv_greedy.py",
        claims=claims_v_half,
        default_chunks=2,
        splits=True,
        extra_work=planning_work,
    ),
    "v-min": Entry(
        name="v-min",
        summary="a third of the memory of 1f1b: two chunks in a V, backward split",
        build=build_v_min,
        constraints="any P, M; two chunks on every rank; M >= 2P for the published peak",
        makespan="from the trace",
        bubble="from the trace",
        peak="fullest rank: 2*floor((P+4)/3) chunks if M >= 2P",
        source="arXiv 2405.15362; zero-bubble repository, zbv_greedy.py",
        claims=claims_v_min,
        default_chunks=2,
        splits=True,
        extra_work=planning_work,
    ),
}
