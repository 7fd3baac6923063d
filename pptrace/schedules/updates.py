"""The update at the accumulation boundary, and several optimizer steps in a row: Schedule in, Schedule out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pptrace.errors import LimitError, ParameterError
from pptrace.model import Coder, OpKind, positive

if TYPE_CHECKING:
    from pptrace.model import Schedule


def with_updates(schedule: Schedule, num_steps: int = 1, *, joint: bool = True, max_ops: int = 2_000_000) -> Schedule:
    """The order of one step, repeated `num_steps` times, each with REDUCE and STEP of every stage at its end.

    `joint`: a STEP waits for the REDUCE of all stages (a global gradient norm, say); otherwise for its own only. By the
    order of its rank no F of the next step can start before STEP. In two-way placements each copy of a stage is reduced
    and updated, with the first microbatch of its copy as number. Raises `LimitError` for more than `max_ops` compute ops.

    A schedule without a flush has its updates already, and its steps run into one another: it is returned as it is.
    Raises `ParameterError` where it was built for another number of steps.
    """
    positive(num_steps, "--steps")
    if schedule.asynchronous:
        if num_steps != schedule.num_steps:
            message = (
                f"{schedule.name} has no flush between its steps and was built with {schedule.num_steps}, not {num_steps}; "
                "build it with --steps (Params.num_steps)"
            )
            raise ParameterError(message)
        return schedule
    num, stages = schedule.num_microbatches, schedule.num_stages
    if schedule.num_ops * num_steps > max_ops:
        message = (
            f"{schedule.num_ops * num_steps:,} ops are over the limit of {max_ops:,}; lower --steps, or raise --max-ops"
        )
        raise LimitError(message)
    coder = Coder(stages, num, num_steps)
    width = num * num_steps
    first_up = (num + 1) // 2
    orders, pairs = [], []
    done = 0
    for rank in range(schedule.num_ranks):
        first, last = schedule.rank_starts[rank : rank + 2]
        once = schedule.codes[first:last]
        copies = _copies(schedule, rank, first_up)
        order: list[int] = []
        for step in range(num_steps):
            pairs += [position - first + done + len(order) for position in schedule.pairs if first <= position < last]
            offset = step * num
            order += once if num_steps == 1 else [code // num * width + code % num + offset for code in once]
            for kind in (OpKind.REDUCE, OpKind.STEP):
                order += [coder.base(kind, stage) + offset + number for stage, number in copies]
        orders.append(order)
        done += len(order)
    return schedule.replace(orders, num_steps=num_steps, pairs=pairs, joint_update=joint)


def _copies(schedule: Schedule, rank: int, first_up: int) -> list[tuple[int, int]]:
    """The (stage, first microbatch) of every copy of a stage that lives on `rank`."""
    if not schedule.placement.bidirectional:
        return [(stage, 0) for stage in schedule.placement.stages(rank)]
    down = schedule.placement.ranks.index(rank)
    up = schedule.num_stages - 1 - down
    return [(down, 0)] + ([(up, first_up)] if first_up < schedule.num_microbatches else [])
