"""A machine for lowered files: what a stage sends travels only by the SEND and RECV that the file has. Sends are buffered (they
never wait), receives wait for their message, and an op that runs before its receive has nothing to compute with.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pptrace.model import MESSAGE_KINDS, OpKind
from pptrace.proof.faults import MissingMessage, WrongMicrobatch
from pptrace.proof.machine import Machine
from pptrace.proof.state import NEVER_TIMED, Mailboxes, Message, owner_of, owner_text

if TYPE_CHECKING:
    from pptrace.model import Op, Schedule
    from pptrace.proof.arithmetic import Matrix
    from pptrace.proof.problem import Problem
    from pptrace.proof.state import Copy, Moment

_SENDS = (OpKind.SEND_F, OpKind.SEND_B)
_Tag = tuple[int, str, tuple[int, int]]
"""What a message is: the stage it goes to, its direction, its owner."""
_FORWARD = (OpKind.SEND_F, OpKind.RECV_F)


class _Wire:
    """Messages under way from one rank to another, oldest first. `tagged` ones are found by what they are; otherwise a
    receive takes the oldest of its pair of ranks, whatever stage, direction and microbatch it was meant for."""

    def __init__(self, *, tagged: bool) -> None:
        self.tagged = tagged
        self.pairs: dict[tuple[int, int], dict[_Tag, Matrix]] = {}

    def put(self, pair: tuple[int, int], tag: _Tag, content: Matrix) -> None:
        self.pairs.setdefault(pair, {})[tag] = content

    def next_tag(self, pair: tuple[int, int], tag: _Tag) -> _Tag | None:
        """The tag of the message that a receive of `tag` would get, or None."""
        waiting = self.pairs.get(pair, {})
        found = tag if self.tagged else next(iter(waiting), tag)
        return found if found in waiting else None

    def take(self, pair: tuple[int, int], tag: _Tag) -> Matrix:
        return self.pairs[pair].pop(tag)


class MessageMachine(Machine):
    """A Machine whose outputs wait in an outbox until they are sent, and on the wire until they are received."""

    def __init__(
        self,
        problem: Problem,
        schedule: Schedule,
        *,
        strict: bool = False,
        slots: int | None = None,
        tagged: bool = True,
    ) -> None:
        super().__init__(problem, schedule, strict=strict, slots=slots)
        self.outbox = Mailboxes(tagged=True)
        self.wire = _Wire(tagged=tagged)

    def has_input(self, op: Op, rank: int) -> bool:
        """Only receives wait; whether an op's message has been received by then is what is to be found out."""
        if op.kind not in (OpKind.RECV_F, OpKind.RECV_B) or self._stray(op, rank):
            return True
        return self.wire.next_tag(self._pair(op, rank), (op.stage, _direction(op), owner_of(op))) is not None

    def _do(self, op: Op, copy: Copy, moment: Moment) -> bool:
        if op.kind not in MESSAGE_KINDS:
            return super()._do(op, copy, moment)
        if op.kind in _SENDS:
            return self._put_on_wire(op, copy[0], moment.text)
        return self._take_off_wire(op, copy[0], moment.text)

    def _stray(self, op: Op, rank: int) -> str:
        why = super()._stray(op, rank)
        if why or op.kind not in MESSAGE_KINDS:
            return why
        sender, receiver = self._pair(op, rank)
        if NEVER_TIMED in (sender, receiver):
            return f"has no stage to {'send to' if op.kind in _SENDS else 'receive from'}"
        if sender == receiver:
            return "is a message between stages of one rank, which hand over without any"
        return ""

    def _pair(self, op: Op, rank: int) -> tuple[int, int]:
        """(sender, receiver) of a message op on `rank`."""
        further = 1 if op.kind in (OpKind.SEND_F, OpKind.RECV_B) else -1
        other = self._rank_of(op.stage + further, owner_of(op)[1])
        return (rank, other) if op.kind in _SENDS else (other, rank)

    def _put_on_wire(self, op: Op, rank: int, at: str) -> bool:
        owner, direction = owner_of(op), _direction(op)
        pair = self._pair(op, rank)
        stage = op.stage + (1 if direction == "activation" else -1)
        message = self.outbox.take((pair[1], stage, direction), owner)
        if message is None:
            self._fault(MissingMessage(op, at, f"has no {direction} of {owner_text(owner)}, which is not computed"))
            return False
        self.wire.put(pair, (stage, direction, owner), message.content)
        return True

    def _take_off_wire(self, op: Op, rank: int, at: str) -> bool:
        owner, direction = owner_of(op), _direction(op)
        pair = self._pair(op, rank)
        wanted = (op.stage, direction, owner)
        tag = self.wire.next_tag(pair, wanted)
        if tag is None:
            self._fault(MissingMessage(op, at, f"has no {direction} of {owner_text(owner)}, which nobody has sent"))
            return False
        if tag != wanted:
            stage, meant, of = tag
            self._fault(
                WrongMicrobatch(op, at, f"takes the {meant} of {owner_text(of)} that was sent to stage {stage}")
            )
        message = Message(owner, self.wire.take(pair, tag), NEVER_TIMED)
        self.messages.put((rank, op.stage, direction), message)
        return True

    def _rank_of(self, stage: int, microbatch: int) -> int:
        if not 0 <= stage < self.schedule.num_stages:
            return NEVER_TIMED
        return self.schedule.placement.rank_of(stage, microbatch, self.schedule.num_microbatches)

    def _send(self, op: Op, stage: int, direction: str, content: Matrix, moment: Moment) -> None:
        owner = owner_of(op)
        receiver = self._rank_of(stage, owner[1])
        if receiver == self._rank_of(op.stage, owner[1]):  # neighbours on one rank hand over without a message
            super()._send(op, stage, direction, content, moment)
        else:
            self.outbox.put((receiver, stage, direction), Message(owner, content, NEVER_TIMED))


def _direction(op: Op) -> str:
    return "activation" if op.kind in _FORWARD else "gradient"
