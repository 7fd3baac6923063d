"""`chimera`: two pipelines of the same stages in opposite directions on the same ranks, 1f1b in each, merged slot by slot."""

from __future__ import annotations

from fractions import Fraction

from pptrace.errors import ParameterError
from pptrace.model import Coder, OpKind, Placement, Schedule
from pptrace.schedules.interleaved import no_latency
from pptrace.schedules.one_f_one_b import claims_1f1b, warmup_then_pairs
from pptrace.schedules.registry import Claim, Entry, EqualCosts, Params
from pptrace.schedules.zero_bubble import in_turn


def build_chimera(params: Params) -> Schedule:
    """Blocks of P microbatches, half of them going down and half going up; M = P/2 goes down only, as 1f1b.

        time   |0    1    2    3    4    5    6    7    8    9
        rank 0 |0F0  0F1  .    3F2^ 3B2^ 3F3^ 3B3^ 0B0  .    0B1
        rank 1 |.    1F0  2F2^ 1F1  2F3^ 2B2^ 1B0  2B3^ 1B1  .
        rank 2 |.    1F2^ 2F0  1F3^ 2F1  2B0  1B2^ 2B1  1B3^ .
        rank 3 |0F2^ 0F3^ .    3F0  3B0  3F1  3B1  0B2^ .    0B3^

    In slots of one F or one B, stage s runs its k-th F of a block in slot s + 2k and its k-th B in slot 2P-1-s + 2k, and a
    block begins 2P slots after the one before: so a rank's F down and B up share the slots of one parity, its F up and B
    down those of the other, and no two ops meet. Source: Li and Hoefler 2021, arXiv 2107.06925 (forward doubling and
    backward halving are not taken up); Chimera's `chimera_pipeline_rank.py`.
    """
    num_ranks, num = params.num_ranks, params.num_microbatches
    coder = Coder(num_ranks, num)
    half = num_ranks // 2
    if num == half:
        one_way = [
            warmup_then_pairs(coder.run(OpKind.F, rank), coder.run(OpKind.B, rank), min(num, num_ranks - 1 - rank))
            for rank in range(num_ranks)
        ]
        return Schedule("chimera", Placement.loop(num_ranks), num, one_way)
    orders = []
    for rank in range(num_ranks):
        down, up = rank, num_ranks - 1 - rank
        goes_down, goes_up = slice(0, num // 2), slice(num // 2, num)
        own = _blocks(coder.run(OpKind.F, down)[goes_down], coder.run(OpKind.B, up)[goes_up], half)
        other = _blocks(coder.run(OpKind.F, up)[goes_up], coder.run(OpKind.B, down)[goes_down], half)
        first, second = (own, other) if down < up else (other, own)
        ahead = (abs(up - down) + 1) // 2  # slots of its parity that the first has to itself
        both = len(first) - ahead
        orders.append([*first[:ahead], *in_turn(second[:both], first[ahead:]), *second[both:]])
    return Schedule("chimera", Placement.two_way(num_ranks), num, orders)


def _blocks(forwards: range, backwards: range, half: int) -> list[int]:
    """`half` forwards, `half` backwards, and so on: what stands in the slots of one parity."""
    order: list[int] = []
    for start in range(0, len(forwards), half):
        order += forwards[start : start + half]
        order += backwards[start : start + half]
    return order


def check_chimera(params: Params) -> None:
    p, m = params.num_ranks, params.num_microbatches
    if p % 2:
        message = f"chimera needs an even number of ranks, got P = {p}; use P = {p + 1}"
        raise ParameterError(message)
    if m % p and m != p // 2:
        below = m // p * p or p // 2
        message = (
            f"chimera needs M = P/2 (one direction) or a multiple of P, got P = {p} M = {m}; "
            f"use M = {below} or M = {m // p * p + p}"
        )
        raise ParameterError(message)


def claims_chimera(params: Params, costs: EqualCosts) -> list[Claim]:
    """The published bubble (P-2)/(2M+P-2) of elapsed is this one for f = b."""
    p, m, f, b = params.num_ranks, params.num_microbatches, costs.f, costs.b
    if m < p:
        return claims_1f1b(params, costs)
    idle = (p - 2) * (max(f, b) + (m // p - 1) * abs(b - f))
    no_wait = (no_latency(params, costs),)
    peaks = tuple(Fraction(p // 2 + 1 + min(rank, p - 1 - rank)) for rank in range(p))
    return [
        Claim("elapsed", "M*(f+b) + (P-2)*(max(f,b)+(M/P-1)*|b-f|)", (m * (f + b) + idle,), no_wait),
        Claim("bubble_time", "(P-2)*(max(f,b)+(M/P-1)*|b-f|)", (idle,), no_wait),
        Claim("peak_activations", "P/2+1+min(r, P-1-r)", peaks, of_order=True, of_sizes=True),
    ]


ENTRIES = {
    "chimera": Entry(
        name="chimera",
        summary="two pipelines in opposite directions on the same ranks; two copies of the weights",
        build=build_chimera,
        constraints="P even; M = P/2 (one direction, as 1f1b) or a multiple of P",
        makespan="M*(f+b) + bubble if M is a multiple of P",
        bubble="(P-2)*(max(f,b)+(M/P-1)*|b-f|) if M is a multiple of P",
        peak="P/2+1 at the ends to P in the middle; two weight copies",
        source="Chimera, arXiv 2107.06925; chimera_pipeline_rank.py",
        claims=claims_chimera,
        check=check_chimera,
    ),
}
