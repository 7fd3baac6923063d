"""`wave`: microbatches run in zig-zag over the ranks, several waves deep, one copy of the weights. After Hanayo; the order is
our own rule, not the paper's generator."""

from __future__ import annotations

from heapq import heappop, heappush

from pptrace.errors import ParameterError
from pptrace.model import Coder, OpKind, Placement, Schedule
from pptrace.schedules.interleaved import no_latency
from pptrace.schedules.registry import Claim, Condition, Entry, EqualCosts, Params


def build_wave(params: Params) -> Schedule:
    """S = 2 x waves x P stages in zig-zag (v = 2 x waves); a rank runs a backward where one is ready, else a forward.

        time   |0   1   2   3   4   5   6   7   8   9
        rank 0 |0F0 0F1 .   3F0 3B0 3F1 3B1 0B0 .   0B1
        rank 1 |.   1F0 2F0 1F1 2F1 2B0 1B0 2B1 1B1 .

    The rule: in ticks of one op (F and B alike), every rank runs the backward of the lowest microbatch that is ready, else
    the forward of the lowest microbatch that is ready. The first P microbatches are there at the start; each one that
    is done lets the next in, so that at most P are in flight. The order is one that ran, so it never deadlocks. Source:
    Liu et al. 2023 (Hanayo), arXiv 2308.15762, for the placement and the waves.
    """
    num_ranks, num, chunks = params.num_ranks, params.num_microbatches, params.num_chunks or 2
    placement = Placement.zigzag(num_ranks, chunks)
    num_stages = placement.num_stages
    coder = Coder(num_stages, num)
    # A microbatch is at hop 0..S-1 on its way forward and S..2S-1 on its way back.
    bases = [coder.base(OpKind.F, s) for s in range(num_stages)] + [coder.base(OpKind.B, s) for s in range(num_stages)][
        ::-1
    ]
    # By rank, what is ready: m where microbatch m is on its way back, M + m where it is on its way forward.
    ready: list[list[int]] = [[] for _ in range(num_ranks)]
    waiting_at = [ready[rank] for rank in (*placement.ranks, *placement.ranks[::-1])]
    orders: list[list[int]] = [[] for _ in range(num_ranks)]
    lanes = list(zip(ready, orders, strict=True))
    hops = [0] * num
    last_hop = 2 * num_stages
    admitted = min(num_ranks, num)
    ready[0].extend(range(num, num + admitted))
    in_flight = admitted
    while in_flight:
        moved = []
        for queue, order in lanes:
            if queue:
                m = heappop(queue)
                if m >= num:
                    m -= num
                hop = hops[m]
                order.append(bases[hop] + m)
                hops[m] = hop + 1
                moved.append(m)
        for m in moved:
            hop = hops[m]
            if hop < num_stages:
                heappush(waiting_at[hop], num + m)
            elif hop < last_hop:
                heappush(waiting_at[hop], m)
            elif admitted < num:
                heappush(ready[0], num + admitted)
                admitted += 1
            else:
                in_flight -= 1
    return Schedule("wave", placement, num, orders, options={"waves": chunks // 2})


def check_wave(params: Params) -> None:
    chunks = params.num_chunks or 2
    if chunks % 2:
        message = f"wave has an even number of chunks, two for every wave, got -v {chunks}; use -v {chunks + 1}"
        raise ParameterError(message)


def claims_wave(params: Params, costs: EqualCosts) -> list[Claim]:
    p, m, v = params.num_ranks, params.num_microbatches, params.num_chunks or 2
    elapsed = (v * max(m, p) + min(m, p) - 1) * (costs.f + costs.b) / v
    conditions = (
        Condition("f = b", costs.f == costs.b),
        Condition("M <= P, or M mod P = 0", m <= p or m % p == 0),
        no_latency(params, costs),
    )
    return [Claim("elapsed", "(v*max(M,P)+min(M,P)-1)*(f+b)/v", (elapsed,), conditions)]


ENTRIES = {
    "wave": Entry(
        name="wave",
        summary="several waves of a zig-zag over the ranks; our own rule, after Hanayo",
        build=build_wave,
        constraints="any P, M; v even: v = 2 x waves",
        makespan="(v*max(M,P)+min(M,P)-1)*(f+b)/v if f = b, M <= P or M mod P = 0",
        bubble="(P-1)*(f+b)/v if f = b, M mod P = 0",
        peak="at most v*min(M,P) chunks, see the trace",
        source="after Hanayo, arXiv 2308.15762; the order is our own rule",
        claims=claims_wave,
        check=check_wave,
        options=("chunks",),
        default_chunks=2,
    ),
}
