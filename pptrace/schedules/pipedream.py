"""Schedules without a flush: `pipedream` (an update after every microbatch) and `pipedream-2bw` (one after every M).

Both run the order of 1f1b over the microbatches of all steps, one behind another, so that the pipeline fills once. Which
version of the weights each op uses follows from where the updates stand; analysis/weight_versions.py works it out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pptrace.errors import ParameterError
from pptrace.model import Coder, OpKind, Placement, Schedule
from pptrace.schedules.one_f_one_b import claims_1f1b, warmup_then_pairs
from pptrace.schedules.registry import Claim, Condition, Entry, EqualCosts, Params

if TYPE_CHECKING:
    from collections.abc import Sequence


def build_pipedream(params: Params) -> Schedule:
    """1f1b without an end: every backward is followed by the update of its stage. Updates are left out of the picture:

        time    |0  1  2  3  4  5  6  7
        stage 0 |F0 F1 .  B0 F2 B1 .  B2
        stage 1 |.  F0 B0 F1 B1 F2 B2 .

    A forward uses the newest weights of its stage, its backward the same version, which is stashed until then. Source:
    Narayanan et al. 2019, SOSP (PipeDream), section 3; PipeDream's `runtime.py`.
    """
    return _without_flush("pipedream", params, every=1)


def build_pipedream_2bw(params: Params) -> Schedule:
    """As pipedream with an update every M microbatches, so that two versions of the weights are enough.

        time    |0  1  2  3  4  5  6  7
        stage 0 |F0 F1 .  B0 F2 B1 .  B2
        stage 1 |.  F0 B0 F1 B1 F2 B2 .

    Every op of the t-th M microbatches (t from 0) uses the weights of max(t-1, 0) updates, on all stages alike. Source:
    Narayanan et al. 2020, arXiv 2006.09503, section 3.1 (double-buffered weight updates).
    """
    return _without_flush("pipedream-2bw", params, every=params.num_microbatches)


def _without_flush(name: str, params: Params, every: int) -> Schedule:
    """1f1b's order over the microbatches of all steps, with REDUCE and STEP of the stage after every `every` backwards."""
    num_ranks, num, steps = params.num_ranks, params.num_microbatches, params.num_steps
    coder = Coder(num_ranks, num, steps)
    orders = []
    for rank in range(num_ranks):
        forwards, backwards = coder.run(OpKind.F, rank), coder.run(OpKind.B, rank)
        order = warmup_then_pairs(forwards, backwards, min(num * steps, num_ranks - 1 - rank))
        updates = {
            backwards[first + every - 1]: [coder.base(kind, rank) + first for kind in (OpKind.REDUCE, OpKind.STEP)]
            for first in range(0, num * steps, every)
        }
        orders.append(_followed(order, updates))
    return Schedule(
        name, Placement.loop(num_ranks), num, orders, num_steps=steps, asynchronous=True, joint_update=False
    )


def _followed(order: Sequence[int], followers: dict[int, list[int]]) -> list[int]:
    """`order` with the followers of a code right behind it."""
    result: list[int] = []
    start = 0
    for index, code in enumerate(order, 1):
        if code in followers:
            result += order[start:index]
            result += followers[code]
            start = index
    return [*result, *order[start:]]


def check_2bw(params: Params) -> None:
    p, m = params.num_ranks, params.num_microbatches
    if m < p:
        message = (
            f"pipedream-2bw updates every M >= P microbatches, got P = {p} M = {m}; two versions of the weights are "
            f"not enough below that; use M = {p}, or pipedream"
        )
        raise ParameterError(message)


def claims_without_flush(params: Params, costs: EqualCosts) -> list[Claim]:
    """Those of 1f1b over the microbatches of all K steps; the idle time per step, (P-1)(f+b)/K, goes to 0."""
    whole = params._replace(num_microbatches=params.num_microbatches * params.num_steps, num_steps=1)
    free_update = Condition("updates take no time", costs.update == 0)
    return [
        claim._replace(
            formula=claim.formula if params.num_steps == 1 else _of_all_steps(claim.formula),
            conditions=claim.conditions if claim.of_order else (*claim.conditions, free_update),
        )
        for claim in claims_1f1b(whole, costs)
    ]


def _of_all_steps(formula: str) -> str:
    """A formula of M microbatches as one of K*M: `(M+P-1)` as `(K*M+P-1)`, `(P-1)/M` as `(P-1)/(K*M)`."""
    return formula.replace("/M", "/(M)").replace("M", "K*M")


ENTRIES = {
    "pipedream": Entry(
        name="pipedream",
        summary="1f1b without a flush: an update after every microbatch, old weights stashed (--steps K: K*M microbatches)",
        build=build_pipedream,
        constraints="any P, M",
        makespan="(K*M+P-1)*(f+b) for K steps",
        bubble="(P-1)*(f+b) once; steady state 0",
        peak="min(K*M, P-r); up to P-r weight versions",
        source="PipeDream, SOSP 2019",
        claims=claims_without_flush,
        asynchronous=True,
        beside="not 1f1b, which flushes after every step and keeps one weight version",
    ),
    "pipedream-2bw": Entry(
        name="pipedream-2bw",
        summary="1f1b without a flush: an update every M microbatches, two versions of the weights (--steps K: K updates)",
        build=build_pipedream_2bw,
        constraints="M >= P",
        makespan="(K*M+P-1)*(f+b) for K steps",
        bubble="(P-1)*(f+b) once; steady state 0",
        peak="P-r; 2 weight versions",
        source="PipeDream-2BW, arXiv 2006.09503",
        claims=claims_without_flush,
        check=check_2bw,
        asynchronous=True,
        beside="not 1f1b, which flushes after every step and keeps one weight version",
    ),
}
