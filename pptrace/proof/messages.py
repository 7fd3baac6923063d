"""A machine for lowered files: what a stage sends travels only by the SEND and RECV that the file has. Sends are buffered (they
never wait), receives wait for their message, and an op that runs before its receive has nothing to compute with.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pptrace.model import MESSAGE_KINDS, NUM_ENGINE_KINDS, OpKind
from pptrace.proof.faults import MissingMessage, RepeatedOp, WrongMicrobatch
from pptrace.proof.machine import Machine
from pptrace.proof.state import NEVER_TIMED, Mailboxes, Message, owner_of, owner_text

if TYPE_CHECKING:
    from pptrace.listing import Listing
    from pptrace.model import Op, Schedule
    from pptrace.proof.arithmetic import Matrix
    from pptrace.proof.problem import Problem

_SENDS = (OpKind.SEND_F, OpKind.SEND_B)
_FORWARD = (OpKind.SEND_F, OpKind.RECV_F)


def has_messages(listing: Listing) -> bool:
    """Whether a listing sends and receives."""
    return any(op.kind in MESSAGE_KINDS for row in listing.rows for cell in row for op in cell.ops)


def orders_of(listing: Listing) -> list[list[Op]]:
    """Per rank, the ops that a MessageMachine runs: compute, updates and messages."""
    return [
        [op for cell in row for op in cell.ops if op.kind < NUM_ENGINE_KINDS or op.kind in MESSAGE_KINDS]
        for row in listing.rows
    ]


class MessageMachine(Machine):
    """A Machine whose outputs wait in an outbox until they are sent, and on the wire until they are received."""

    def __init__(self, problem: Problem, schedule: Schedule, *, strict: bool = False, slots: int | None = None) -> None:
        super().__init__(problem, schedule, strict=strict, slots=slots)
        self.outbox = Mailboxes(tagged=True)
        self.wire = Mailboxes(tagged=True)

    def run(
        self, op: Op, rank: int, at: str, start: int = NEVER_TIMED, end: int = NEVER_TIMED, arrival: int = NEVER_TIMED
    ) -> None:
        if op.kind not in MESSAGE_KINDS:
            super().run(op, rank, at, start, end, arrival)
            return
        if op in self.ran:
            self._fault(RepeatedOp(op, at, "runs a second time"))
        if self._carry(op, rank, at):
            self.ran.add(op)
            self.counts[op.kind] += 1

    def has_input(self, op: Op, rank: int) -> bool:
        """Only receives wait; whether an op's message has been received by then is what is to be found out."""
        if op.kind in (OpKind.RECV_F, OpKind.RECV_B):
            return self.wire.has((rank, op.stage, _direction(op)), owner_of(op))
        return True

    def _carry(self, op: Op, rank: int, at: str) -> bool:
        """From the outbox to the wire, or from the wire to the op that needs it."""
        owner, direction = owner_of(op), _direction(op)
        sends = op.kind in _SENDS
        stage = op.stage + (1 if direction == "activation" else -1) if sends else op.stage
        place = (self._receiver(stage, owner[1]), stage, direction) if sends else (rank, stage, direction)
        message = (self.outbox if sends else self.wire).take(place, owner)
        if message is None:
            source = "which is not computed" if sends else "which nobody has sent"
            self._fault(MissingMessage(op, at, f"has no {direction} of {owner_text(owner)}, {source}"))
            return False
        if message.owner != owner:
            self._fault(WrongMicrobatch(op, at, f"carries the {direction} of {owner_text(message.owner)}"))
        (self.wire if sends else self.messages).put(place, message)
        return True

    def _receiver(self, stage: int, microbatch: int) -> int:
        if not 0 <= stage < self.schedule.num_stages:
            return NEVER_TIMED
        return self.schedule.placement.rank_of(stage, microbatch, self.schedule.num_microbatches)

    def _send(self, op: Op, stage: int, direction: str, content: Matrix) -> None:
        owner = owner_of(op)
        receiver = self._receiver(stage, owner[1])
        if receiver == self._receiver(op.stage, owner[1]):  # neighbours on one rank hand over without a message
            super()._send(op, stage, direction, content)
        else:
            self.outbox.put((receiver, stage, direction), Message(owner, content, NEVER_TIMED))


def _direction(op: Op) -> str:
    return "activation" if op.kind in _FORWARD else "gradient"
