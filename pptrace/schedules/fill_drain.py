"""Schedules that run all forwards before the backwards come: `naive` (one microbatch at a time) and `gpipe`."""

from __future__ import annotations

from fractions import Fraction

from pptrace.errors import ParameterError
from pptrace.model import Coder, OpKind, Placement, Schedule
from pptrace.schedules.registry import Claim, Condition, Entry, EqualCosts, Params


def build_naive(params: Params) -> Schedule:
    """One microbatch after another, no overlap: each rank runs F0 B0 F1 B1 ...

        time    |0  1  2  3  4  5  6  7
        stage 0 |F0 .  .  B0 F1 .  .  B1
        stage 1 |.  F0 B0 .  .  F1 B1 .

    The order itself keeps one microbatch in the pipeline: stage 0 waits for its own backward before its next forward.
    """
    coder = Coder(params.num_ranks, params.num_microbatches)
    orders = []
    for rank in range(params.num_ranks):
        order = [0] * (2 * params.num_microbatches)
        order[0::2] = coder.run(OpKind.F, rank)
        order[1::2] = coder.run(OpKind.B, rank)
        orders.append(order)
    return Schedule("naive", Placement.loop(params.num_ranks), params.num_microbatches, orders)


def build_gpipe(params: Params) -> Schedule:
    """All forwards, then all backwards, in the same order (`fifo`, the default) or the last first (`lifo`).

        time    |0  1  2  3  4  5
        stage 0 |F0 F1 .  .  B0 B1
        stage 1 |.  F0 F1 B0 B1 .

    Source: Huang et al. 2019 (GPipe), arXiv 1811.06965; PyTorch `ScheduleGPipe` runs fifo.
    """
    coder = Coder(params.num_ranks, params.num_microbatches)
    step = -1 if params.order == "lifo" else 1
    orders = [[*coder.run(OpKind.F, rank), *coder.run(OpKind.B, rank)[::step]] for rank in range(params.num_ranks)]
    options = {"order": params.order or "fifo"}
    return Schedule("gpipe", Placement.loop(params.num_ranks), params.num_microbatches, orders, options=options)


def check_gpipe(params: Params) -> None:
    if params.order not in (None, "fifo", "lifo"):
        message = f"--order is fifo or lifo, got {str(params.order)[:40]!r}"
        raise ParameterError(message)


def claims_naive(params: Params, costs: EqualCosts) -> list[Claim]:
    p, m = params.num_ranks, params.num_microbatches
    return [
        Claim("elapsed", "M*P*(f+b) + 2*M*(P-1)*c", (m * p * (costs.f + costs.b) + 2 * m * (p - 1) * costs.c,)),
        Claim("peak_activations", "1", (Fraction(1),) * p, of_order=True),
    ]


def claims_gpipe(params: Params, costs: EqualCosts) -> list[Claim]:
    p, m = params.num_ranks, params.num_microbatches
    elapsed = (m + p - 1) * (costs.f + costs.b) + 2 * (p - 1) * costs.c
    at_c0 = (Condition("c = 0", costs.c == 0),)
    return [
        Claim("elapsed", "(M+P-1)*(f+b) + 2*(P-1)*c", (elapsed,)),
        Claim(
            "bubble_over_elapsed", "(P-1)/(M+P-1)", (Fraction(p - 1, m + p - 1),), (Condition("c = 0", costs.c == 0),)
        ),
        Claim("bubble_over_ideal", "(P-1)/M", (Fraction(p - 1, m),), at_c0, of_sizes=True),
        Claim("peak_activations", "M", (Fraction(m),) * p, of_order=True),
    ]


ENTRIES = {
    "naive": Entry(
        name="naive",
        summary="one microbatch after another, no overlap",
        build=build_naive,
        constraints="any P, M",
        makespan="M*P*(f+b) + 2*M*(P-1)*c",
        bubble="M*(P-1)*(f+b)",
        peak="1",
        source="the unpipelined baseline",
        claims=claims_naive,
    ),
    "gpipe": Entry(
        name="gpipe",
        summary="all forwards, then all backwards",
        build=build_gpipe,
        constraints="any P, M; --order fifo|lifo",
        makespan="(M+P-1)*(f+b) + 2*(P-1)*c",
        bubble="(P-1)*(f+b)",
        peak="M",
        source="GPipe, arXiv 1811.06965; PyTorch ScheduleGPipe",
        claims=claims_gpipe,
        check=check_gpipe,
        options=("order",),
    ),
}
