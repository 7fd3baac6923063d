"""`zb-v`: two chunks on every rank in V placement and the fixed order of the zero-bubble family, backward split."""

from __future__ import annotations

from fractions import Fraction

from pptrace.model import Coder, OpKind, Placement, Schedule
from pptrace.schedules.interleaved import no_latency
from pptrace.schedules.registry import Claim, Condition, Entry, EqualCosts, Params
from pptrace.schedules.zero_bubble import in_turn


def build_zb_v(params: Params) -> Schedule:
    """Rank r holds the stages r (going down) and 2P-1-r (going up); no rank waits between its first and its last op.

        time   |0   1   2   3   4   5   6   7   8   9   10  11  12  13  14  15  16  17  18
        rank 0 |0F0 0F1 0F2 3F0 3I0 3W0 3F1 3I1 3W1 0I0 0W0 3F2 3I2 3W2 0I1 0W1 0I2 0W2 .
        rank 1 |.   1F0 2F0 1F1 2F1 2I0 2W0 1F2 1I0 1W0 2F2 2I1 2W1 1I1 2I2 1I2 1W1 2W2 1W2

    Made for n = max(2P-1, M) microbatches; with fewer, the ops of those that are not there are left out. Source: Qi et al.
    2023, arXiv 2401.10241, section 6; PyTorch `ScheduleZBVZeroBubble`.
    """
    num_ranks, num = params.num_ranks, params.num_microbatches
    planned = max(2 * num_ranks - 1, num)
    orders = [_order(num_ranks, rank, planned) for rank in range(num_ranks)]
    if planned > num:
        orders = [[c // planned * num + c % planned for c in order if c % planned < num] for order in orders]
    return Schedule("zb-v", Placement.zigzag(num_ranks), num, orders)


def _order(num_ranks: int, rank: int, num: int) -> list[int]:
    """The codes of one rank for `num` >= 2P-1 microbatches; `f0 i0 w0` are of the chunk going down, `f1 i1 w1` going up."""
    coder = Coder(2 * num_ranks, num)
    kinds = (OpKind.F, OpKind.I, OpKind.W)
    f0, i0, w0 = (coder.run(kind, rank) for kind in kinds)
    f1, i1, w1 = (coder.run(kind, 2 * num_ranks - 1 - rank) for kind in kinds)
    below = num_ranks - rank
    ahead = 2 * below - 1  # forwards of the first chunk before anything else
    joint = num - (ahead + rank)  # rounds that still have a forward of the first chunk
    rounds = num - num_ranks
    return [
        *f0[:ahead],
        *in_turn(f1[:rank], f0[ahead : ahead + rank]),
        *in_turn(f1[rank:num_ranks], i1[:below], w1[:below]),
        *in_turn(
            f0[ahead + rank :],
            i0[:joint],
            w0[:joint],
            f1[num_ranks : num_ranks + joint],
            i1[below : below + joint],
            w1[below : below + joint],
        ),
        *in_turn(
            i0[joint:rounds],
            w0[joint:rounds],
            f1[num_ranks + joint :],
            i1[below + joint : below + rounds],
            w1[below + joint : below + rounds],
        ),
        *in_turn(i0[rounds : rounds + rank], i1[below + rounds :]),
        *in_turn(i0[rounds + rank :], w0[rounds : rounds + below]),
        *w1[below + rounds :],
        *w0[rounds + below :],
    ]


def claims_zb_v(params: Params, costs: EqualCosts) -> list[Claim]:
    """As the paper does, the span of a rank is what has no bubble; the makespan has the fill of the V's first leg on top."""
    p, m = params.num_ranks, params.num_microbatches
    work = m * (costs.f + costs.b)
    enough = Condition("M >= 2P-1", m >= 2 * p - 1)
    conditions = (enough, Condition("f = i = w", costs.f == costs.i == costs.w), no_latency(params, costs))
    return [
        Claim("longest_span", "M*(f+b)", (work,), conditions),
        Claim("elapsed", "M*(f+b) + (P-1)*f/2", (work + (p - 1) * costs.f / 2,), conditions),
        Claim("peak_activations", "2P chunks until W ends", (Fraction(2 * p),) * p, (enough,), of_order=True),
    ]


ENTRIES = {
    "zb-v": Entry(
        name="zb-v",
        summary="zero bubble with the memory of 1f1b: two chunks in a V, backward split",
        build=build_zb_v,
        constraints="any P, M; two chunks on every rank; M >= 2P-1 for the published figures",
        makespan="M*(f+b) + (P-1)*f/2, longest span M*(f+b), if f = i = w, M >= 2P-1",
        bubble="of the span: 0 if f = i = w, M >= 2P-1",
        peak="2P chunks if M >= 2P-1, less below",
        source="arXiv 2401.10241; PyTorch ScheduleZBVZeroBubble",
        claims=claims_zb_v,
        default_chunks=2,
        splits=True,
    ),
}
