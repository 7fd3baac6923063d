"""`dualpipe` and `dualpipev`: microbatches enter at both ends of a chain of stages, and forwards overlap backwards.

Both are one order, told by eight steps for one rank that runs two lanes of ops: in dualpipev the two lanes are the rank's
two chunks of a V, in dualpipe the microbatches that go its own way and those that come the other way.
"""

from __future__ import annotations

from fractions import Fraction
from typing import NamedTuple

from pptrace.errors import ParameterError
from pptrace.model import Coder, OpKind, Placement, Schedule
from pptrace.schedules.interleaved import no_latency
from pptrace.schedules.registry import Claim, Condition, Entry, EqualCosts, Params
from pptrace.schedules.zero_bubble import in_turn


class _Lane(NamedTuple):
    """The codes of one lane of a rank by kind, each in the order in which its microbatches come."""

    f: range
    b: range
    i: range
    w: range

    @classmethod
    def of(cls, coder: Coder, stage: int, numbers: slice) -> _Lane:
        return cls(*(coder.run(kind, stage)[numbers] for kind in (OpKind.F, OpKind.B, OpKind.I, OpKind.W)))


def build_dualpipe(params: Params) -> Schedule:
    """Two copies of each stage: microbatches 0..M/2-1 go down the ranks, M/2..M-1 go up; `(F B)` pairs overlap.

        time   |0    1    2    3    4    5    6    7    8    9    10   11
        rank 0 |0F0  1F2^ 0F1  1B2^----- 1F3^+0B0------ 1B3^----- 0I1  0W1
        rank 1 |0F2^ 1F0  0F3^ 1B0------ 1F1+0B2^------ 1B1------ 0I3^ 0W3^

    Source: DeepSeek-V3, arXiv 2412.19437, section 3.2.1; DeepSeek `dualpipe.py`.
    """
    num_ranks, num = params.num_ranks, params.num_microbatches
    coder = Coder(num_ranks, num)
    down, up = slice(0, num // 2), slice(num // 2, num)
    orders: list[list[int]] = []
    pairs: list[int] = []
    done = 0
    for rank in range(num_ranks):
        lanes = [_Lane.of(coder, rank, down), _Lane.of(coder, num_ranks - 1 - rank, up)]
        if rank >= num_ranks // 2:
            lanes.reverse()
        order, own_pairs = _eight_steps(lanes[0], lanes[1], num_ranks // 2, min(rank, num_ranks - 1 - rank), done)
        pairs += own_pairs
        orders.append(order)
        done += len(order)
    return Schedule("dualpipe", Placement.two_way(num_ranks), num, orders, pairs=pairs)


def build_dualpipev(params: Params) -> Schedule:
    """DualPipe cut in half: two chunks on every rank in a V, one copy of the weights; `(F B)` pairs overlap.

        time   |0   1   2   3   4   5   6   7   8   9   10  11
        rank 0 |0F0 1F0 0F1 1B0---- 1F1+0B0---- 1B1---- 0I1 0W1

    Source: DeepSeek `dualpipev.py`; PyTorch `ScheduleDualPipeV` has the same order.
    """
    num_ranks, num = params.num_ranks, params.num_microbatches
    coder = Coder(2 * num_ranks, num)
    orders: list[list[int]] = []
    pairs: list[int] = []
    done = 0
    everything = slice(0, num)
    for rank in range(num_ranks):
        lanes = [_Lane.of(coder, stage, everything) for stage in (rank, 2 * num_ranks - 1 - rank)]
        order, own_pairs = _eight_steps(lanes[0], lanes[1], num_ranks, rank, done)
        pairs += own_pairs
        orders.append(order)
        done += len(order)
    return Schedule("dualpipev", Placement.zigzag(num_ranks), num, orders, pairs=pairs)


def _eight_steps(near: _Lane, far: _Lane, num_ranks: int, rank: int, done: int) -> tuple[list[int], list[int]]:
    """(codes, position of the first op of every overlapped pair) of the rank at distance `rank` from where lane `near`
    begins; its list begins at position `done`.

    Lane `near` starts its forwards here, lane `far` its backwards; `num_ranks` is the length of the way that lane `near`
    has before it turns (dualpipe: meets the other direction).
    """
    num = len(near.f)
    below = num_ranks - 1 - rank
    ahead = 2 * below  # forwards of the near lane before anything else
    turn = rank + 1
    joint = num - 2 * num_ranks + turn
    near_f = ahead + turn  # how many of each are used up before the joint rounds
    far_f = turn + below

    # 1-3: fill; the far lane's first backwards are split, so that their gradients go on soon
    order = [*near.f[:ahead], *in_turn(near.f[ahead:near_f], far.f[:turn])]
    order += in_turn(far.i[:below], far.w[:below], far.f[turn:far_f])
    # 4: rounds of two pairs, (near F, far B), (far F, near B)
    start = done + len(order)
    order += in_turn(near.f[near_f:], far.b[below : below + joint], far.f[far_f : far_f + joint], near.b[:joint])
    pairs = list(range(start, done + len(order), 2))
    if below == 0:  # where the lanes meet, the first B waits for the F beside it
        del pairs[0]
    # 5: (far B), (far F, near B) until the far lane's forwards are used up
    start = done + len(order)
    order += in_turn(far.b[below + joint : 2 * below + joint], far.f[far_f + joint :], near.b[joint : joint + below])
    pairs += range(start + 1, done + len(order), 3)
    # 6: the backwards that are left, the second half of them split
    far_left, near_left = far.b[2 * below + joint :], near.b[joint + below : joint + below + turn]
    whole_far, whole_near = (turn + 1) // 2, turn // 2
    order += in_turn(
        [*far_left[:whole_far], *far.i[num - turn + whole_far :]],
        [*near_left[:whole_near], *near.i[joint + below + whole_near : joint + below + turn]],
    )
    # 7-8: the near lane's last I, with the W that are due, in the order of their I
    due = _merged(
        far.w[num - turn + whole_far :], near.w[joint + below + whole_near :], far_first=whole_far == whole_near
    )
    order += in_turn(due[:below], near.i[joint + below + turn :])
    order += due[below:]
    return order, pairs


def _merged(far: range, near: range, *, far_first: bool) -> list[int]:
    """The two in turn as long as both last, then the rest of the longer."""
    first, second = (far, near) if far_first else (near, far)
    both = min(len(first), len(second))
    return [*in_turn(first[:both], second[:both]), *first[both:], *second[both:]]


def check_dualpipe(params: Params) -> None:
    p, m = params.num_ranks, params.num_microbatches
    if p % 2:
        message = f"dualpipe needs an even number of ranks, got P = {p}; use P = {p + 1}, or dualpipev"
        raise ParameterError(message)
    if m < 2 * p or m % 2:
        message = f"dualpipe needs an even M of at least 2P, got P = {p} M = {m}; use M = {max(2 * p, m + m % 2)}"
        raise ParameterError(message)


def check_dualpipev(params: Params) -> None:
    p, m = params.num_ranks, params.num_microbatches
    if m < 2 * p:
        message = f"dualpipev needs M >= 2P, got P = {p} M = {m}; use M = {2 * p}, or fewer ranks"
        raise ParameterError(message)


def claims_dualpipe(params: Params, costs: EqualCosts) -> list[Claim]:
    p = params.num_ranks
    return _claims(params, costs, "(P/2-1)", Fraction(p, 2) - 1, "P+1", p + 1)


def claims_dualpipev(params: Params, costs: EqualCosts) -> list[Claim]:
    """The published formula is in times of one chunk, which are half of those of a rank."""
    p = params.num_ranks
    return _claims(params, costs, "(P-1)/2", Fraction(p - 1, 2), "2P+1 chunks", 2 * p + 1)


def _claims(params: Params, costs: EqualCosts, factor: str, hops: Fraction, peak_text: str, peak: int) -> list[Claim]:
    """FB is what an overlapped pair takes. If that is f+b all ranks are alike, if less the formula is of the worst rank."""
    both = costs.f + costs.b
    pair = both if costs.pair is None else costs.pair
    conditions = (
        Condition("f = i", costs.f == costs.i),
        Condition("w <= f", costs.w <= costs.f),
        no_latency(params, costs),
        Condition(
            "a pair is one block that takes max(f,b) to f+b",
            costs.overlap != "split" and max(costs.f, costs.b) <= pair <= both,
        ),
    )
    idle = hops * (pair + costs.b - 3 * costs.w)
    claims = [
        Claim(
            "bubble_time",
            f"{factor}*(FB+b-3w)" + ("" if pair == both else " on the worst rank"),
            (idle,),
            conditions,
            largest=pair != both,
        ),
        Claim(
            "peak_activations",
            f"{peak_text}, until W ends",
            (Fraction(peak),) * params.num_ranks,
            of_order=True,
            of_sizes=True,
        ),
    ]
    if pair == both:
        elapsed = params.num_microbatches * both + idle
        claims.insert(0, Claim("elapsed", f"M*(f+b) + {factor}*(FB+b-3w)", (elapsed,), conditions))
    return claims


ENTRIES = {
    "dualpipe": Entry(
        name="dualpipe",
        summary="microbatches from both ends, forwards overlapping backwards; two copies of the weights",
        build=build_dualpipe,
        constraints="P even, M even, M >= 2P",
        makespan="M*(f+b) + bubble if a pair takes FB = f+b",
        bubble="(P/2-1)*(FB+b-3w) if f = i, w <= f (worst rank if FB < f+b)",
        peak="P+1; two weight copies",
        source="DeepSeek-V3, arXiv 2412.19437; DeepSeek dualpipe.py",
        claims=claims_dualpipe,
        check=check_dualpipe,
        splits=True,
    ),
    "dualpipev": Entry(
        name="dualpipev",
        summary="half of dualpipe folded into a V: two chunks on every rank, forwards overlapping backwards",
        build=build_dualpipev,
        constraints="M >= 2P; two chunks on every rank",
        makespan="M*(f+b) + bubble if a pair takes FB = f+b",
        bubble="(P-1)/2*(FB+b-3w) if f = i, w <= f (worst rank if FB < f+b)",
        peak="2P+1 chunks",
        source="DeepSeek dualpipev.py; PyTorch ScheduleDualPipeV",
        claims=claims_dualpipev,
        check=check_dualpipev,
        default_chunks=2,
        splits=True,
    ),
}
