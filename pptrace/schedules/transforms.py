"""What can be done to any order: split its backwards (`--split-backward`), or recompute its forwards (`--recompute`).

Schedule in, Schedule out; the order of the other ops stays. Overlapped pairs stay pairs: what a transform adds comes
before or behind the block, because a block is one F and one backward, and nothing else runs beside them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pptrace.errors import ParameterError
from pptrace.model import OpKind

if TYPE_CHECKING:
    from collections.abc import Callable

    from pptrace.model import Schedule


def split_backward(schedule: Schedule) -> Schedule:
    """Every B becomes I, then W. In an overlapped pair the I takes the place of the B, and W follows the block.

    A schedule without a full backward is returned as it is.
    """
    if OpKind.B not in schedule.kinds():
        return schedule
    block = _block(schedule)
    first, end = OpKind.B * block, (OpKind.B + 1) * block
    to_input, to_weight = (OpKind.I - OpKind.B) * block, (OpKind.W - OpKind.B) * block

    def halves(codes: list[int]) -> tuple[list[int], list[int], list[int]]:
        held = [code + to_input if first <= code < end else code for code in codes]
        return [], held, [code + to_weight for code in codes if first <= code < end]

    return _rewritten(schedule, halves, {"split_backward": "yes"})


def recompute(schedule: Schedule, *, early: bool = False) -> Schedule:
    """F keeps only the stage's input, and an R runs directly before every B (or I).

    R waits for what its B waits for, as where frameworks recompute inside the backward; with `early` for nothing but its own
    F, so that it fills the time in which the rank waits for the gradient. In an overlapped pair (F;B) the R of that
    B runs before the block: the block then starts when R is done, and its duration stays that of F and B. Raises
    `ParameterError` for a schedule that has R ops already.
    """
    if OpKind.R in schedule.kinds():
        message = f"{schedule.name} has R ops already; leave --recompute out"
        raise ParameterError(message)
    block = _block(schedule)
    first, end = OpKind.B * block, (OpKind.I + 1) * block

    def before(codes: list[int]) -> tuple[list[int], list[int], list[int]]:
        return [OpKind.R * block + code % block for code in codes if first <= code < end], codes, []

    return _rewritten(schedule, before, {"recompute": "early" if early else "full"}, early_recompute=early)


def _block(schedule: Schedule) -> int:
    """How many codes there are of one kind."""
    return schedule.num_stages * schedule.num_microbatches * schedule.num_steps


def _rewritten(
    schedule: Schedule,
    rewrite: Callable[[list[int]], tuple[list[int], list[int], list[int]]],
    options: dict[str, str],
    **changes: bool,
) -> Schedule:
    """Every op, or overlapped pair, replaced by (codes before it, itself, codes behind it); pairs are found again."""
    single: dict[int, list[int]] = {}
    for code in set(schedule.codes):
        before, held, behind = rewrite([code])
        single[code] = [*before, *held, *behind]
    orders: list[list[int]] = []
    pairs: list[int] = []
    done = 0
    for rank in range(schedule.num_ranks):
        order: list[int] = []
        positions = iter(schedule.positions(rank))
        for position in positions:
            if position not in schedule.pairs:
                order += single[schedule.codes[position]]
                continue
            before, held, behind = rewrite([schedule.codes[position], schedule.codes[next(positions)]])
            pairs.append(done + len(order) + len(before))
            order += [*before, *held, *behind]
        orders.append(order)
        done += len(order)
    return schedule.replace(orders, pairs=pairs, options={**schedule.options, **options}, **changes)
