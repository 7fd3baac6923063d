"""Schedule files as they are written: orders of ops that may be doubled, on the wrong rank, of a microbatch that is not there,
with messages of their own. What most ops say of the sizes makes the problem; every op is kept, for the machine to meet.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from pptrace.errors import ParameterError, ScheduleError
from pptrace.listing import likely_holders, likely_sizes
from pptrace.model import MESSAGE_KINDS, NUM_ENGINE_KINDS, Coder, Op, OpKind, Placement, Schedule

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pptrace.listing import Listing

_MOST_MICROBATCHES_PER_OP = 4
"""A larger M than this times the ops is a slip of the pen."""


class Written(NamedTuple):
    """A file's one step. `orders` are all its ops; `schedule` has its sizes and placement and the ops that fit them.

    `has_messages`: outputs travel by the file's own SEND and RECV. `refused` says why no schedule can be made of it, and is
    empty where one can.
    """

    schedule: Schedule
    orders: tuple[tuple[Op, ...], ...]
    has_messages: bool
    refused: str = ""

    @property
    def needs_its_order(self) -> bool:
        """Whether the ops have to be run as they stand: what the engine could time would not be the whole of it."""
        every_op_fits = sum(map(len, self.orders)) == self.schedule.num_ops
        reduces = OpKind.REDUCE in self.schedule.kinds()
        return self.has_messages or reduces or bool(self.refused) or not every_op_fits


def as_written(listing: Listing, num_microbatches: int | None = None, *, refused: str = "") -> Written:
    """What `listing` holds: compute ops, messages, reductions (REDUCE_GRAD is a REDUCE).

    M is `num_microbatches`, else what most stages agree on; every stage is on the rank that runs most of its ops. Raises
    `ScheduleError` where there is nothing to run, `ParameterError` and `LimitError` for numbers that cannot be meant.
    """
    orders = tuple(tuple(_as_run(op) for cell in row for op in cell.ops if _is_run(op.kind)) for row in listing.rows)
    ops = [op for order in orders for op in order]
    if not any(op.kind is OpKind.F for op in ops):
        message = "there is no forward; a schedule has F and B ops, for example 0F0"
        raise ScheduleError(message)
    (num_stages, num, num_steps), _ = likely_sizes(ops, None)
    if num_microbatches is not None:
        if num_microbatches * num_stages > _MOST_MICROBATCHES_PER_OP * len(ops):
            message = f"-M {num_microbatches} is far more than the {len(ops)} ops of the file run; leave -M out"
            raise ParameterError(message)
        num = num_microbatches
    placement = _placement(orders, num_stages, num)
    coder = Coder(num_stages, num, num_steps)
    fitting = [[coder.code_of(op) for op in order if _fits(op, coder)] for order in orders]
    schedule = Schedule(listing.source or "custom", placement, num, fitting, num_steps=num_steps)
    has_messages = any(op.kind in MESSAGE_KINDS for op in ops)
    return Written(schedule, orders, has_messages, refused)


def _is_run(kind: OpKind) -> bool:
    return kind < NUM_ENGINE_KINDS or kind in MESSAGE_KINDS or kind is OpKind.REDUCE_GRAD


def _as_run(op: Op) -> Op:
    return op._replace(kind=OpKind.REDUCE) if op.kind is OpKind.REDUCE_GRAD else op


def _fits(op: Op, coder: Coder) -> bool:
    return (
        op.kind < NUM_ENGINE_KINDS
        and 0 <= op.stage < coder.num_stages
        and 0 <= (op.microbatch or 0) < coder.num_microbatches
    )


def _placement(orders: Sequence[Sequence[Op]], num_stages: int, num_microbatches: int) -> Placement:
    counts = [Counter(op.stage for op in order) for order in orders]
    two_way, holders = likely_holders(counts, num_stages, num_microbatches)
    if two_way:
        return Placement.two_way(len(orders))
    return Placement("explicit", [max(rank, 0) for rank in holders], len(orders))
