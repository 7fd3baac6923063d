"""A pipeline that runs ops one by one on the small model. `Machine.run` does one op and takes strictly what is there:
activations (activations.py), weights and gradients (updates.py), messages; which op comes next is decided elsewhere
(executor.py).

A fault is raised when `strict`, else written down, and the op then does what a careless runtime would: it is left out where
there is nothing to compute with, and otherwise goes on with the wrong state.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from pptrace.model import BOUNDARY_KINDS, OpKind
from pptrace.proof import layers
from pptrace.proof.activations import Activations
from pptrace.proof.faults import EarlyUse, MissingMessage, RepeatedOp, StateFault, StrayOp, WrongMicrobatch
from pptrace.proof.state import Activation, Mailboxes, Message, owner_of, owner_text
from pptrace.proof.updates import Updates

if TYPE_CHECKING:
    from collections.abc import Callable

    from pptrace.model import Op, Schedule
    from pptrace.proof.arithmetic import Matrix
    from pptrace.proof.layers import Parameters, Saved
    from pptrace.proof.problem import Problem
    from pptrace.proof.state import Copy, Moment, Owner


class Machine:
    """Run ops one by one. `slots`: activations of a stage lie in a ring of that many (microbatch m in m mod slots), else each
    has its own place. `tagged`: messages carry their microbatch, else each takes the first that came. `uses_version`
    gives the weight version of a forward; None means the newest."""

    def __init__(
        self,
        problem: Problem,
        schedule: Schedule,
        *,
        strict: bool = False,
        slots: int | None = None,
        tagged: bool = True,
        uses_version: Callable[[Op], int] | None = None,
    ) -> None:
        self.problem = problem
        self.num = problem.arithmetic
        self.schedule = schedule
        self.strict = strict
        self.uses_version = uses_version
        self.last_stage = schedule.num_stages - 1
        self.masks = problem.masks()
        recomputed = range(schedule.coder.base(OpKind.R, 0), schedule.coder.base(OpKind.REDUCE, 0))
        self.recomputed = {
            schedule.coder.op(code)._replace(kind=OpKind.F) for code in schedule.codes if code in recomputed
        }
        self.activations = Activations(slots, self._fault)
        self.updates = Updates(problem, schedule, self._fault)
        self.messages = Mailboxes(tagged=tagged)
        self.means: dict[Copy, Matrix] = {}
        self.outputs: dict[Owner, Matrix] = {}
        self.losses: dict[Owner, Matrix] = {}
        self.versions: dict[tuple[int, Owner], int] = {}
        """The weight version that the forward of (stage, owner) used."""
        self.counts: Counter[OpKind] = Counter()
        self.ran: set[Op] = set()
        self.faults: list[StateFault] = []

    # ---- one op -----------------------------------------------------------------------------------------------------

    def run(self, op: Op, rank: int, moment: Moment) -> None:
        """Do `op` on `rank`. Raises `StateFault` when strict."""
        stray = self._stray(op, rank)
        if stray:
            self._fault(StrayOp(op, moment.text, stray))
            return
        if op in self.ran:
            self._fault(RepeatedOp(op, moment.text, "runs a second time"))
        if self._do(op, (rank, op.stage), moment):
            self.ran.add(op)
            self.counts[op.kind] += 1

    def has_input(self, op: Op, rank: int) -> bool:
        """Whether the message that `op` needs is there; waiting does not help an op that has no place here."""
        direction = self._direction(op)
        if direction is None or self._stray(op, rank):
            return True
        return self.messages.has((rank, op.stage, direction), owner_of(op))

    def _do(self, op: Op, copy: Copy, moment: Moment) -> bool:
        """Run one op; False where it was left out."""
        return _DO[op.kind](self, op, copy, moment)

    def _direction(self, op: Op) -> str | None:
        if op.kind is OpKind.F and op.stage > 0:
            return "activation"
        if op.kind in (OpKind.B, OpKind.I) and op.stage < self.last_stage:
            return "gradient"
        return None

    def _stray(self, op: Op, rank: int) -> str:
        """Why `op` cannot be run on `rank` at all; empty where it can."""
        placement, num = self.schedule.placement, self.schedule.num_microbatches
        if not 0 <= op.stage < self.schedule.num_stages:
            return f"is of a stage that is not there; there are {self.schedule.num_stages}, counted from 0"
        if op.kind in BOUNDARY_KINDS:
            if op.stage in placement.stages(rank):
                return ""
            return f"runs on rank {rank}, which does not hold stage {op.stage}"
        microbatch = op.microbatch or 0
        if not 0 <= microbatch < num:
            return f"is of a microbatch that is not there; there are {num}, counted from 0"
        home = placement.rank_of(op.stage, microbatch, num)
        of = f" for {owner_text(owner_of(op))}" if placement.bidirectional else ""
        return "" if rank == home else f"runs on rank {rank}, but stage {op.stage} is on rank {home}{of}"

    def _fault(self, fault: StateFault) -> None:
        if self.strict:
            raise fault
        self.faults.append(fault)

    # ---- the kinds of op --------------------------------------------------------------------------------------------

    def _forward(self, op: Op, copy: Copy, moment: Moment) -> bool:
        owner = owner_of(op)
        if op.stage == 0:
            x, target = self.problem.data(*owner)
        else:
            message = self._receive(op, copy, "activation", moment)
            if message is None:
                return False
            x = message.content
        newest = self.updates.newest(copy)
        version = newest if self.uses_version is None else max(0, min(self.uses_version(op), newest))
        self.versions[op.stage, owner] = version
        if self.problem.batch_statistics:
            self._update_mean(copy, x)
        y, saved = self._layer(op, self.updates.use(op, copy, version, moment), x, owner)
        at_loss = None
        if op.stage == self.last_stage:
            target = self.problem.data(*owner)[1]
            self.outputs[owner] = y
            self.losses[owner] = layers.loss(self.num, y, target)
            at_loss = layers.loss_gradient(self.num, y, target)
        else:
            self._send(op, op.stage + 1, "activation", y, moment)
        kept = Activation(owner, version, moment.end, saved=saved, at_loss=at_loss)
        if op in self.recomputed:
            kept = Activation(owner, version, moment.end, x=x)
        self.activations.store(op, copy, kept, moment)
        return True

    def _recompute(self, op: Op, copy: Copy, moment: Moment) -> bool:
        found = self.activations.find(op, copy, "x", "the input kept by its forward", moment)
        if found is None or found.x is None:
            return False
        weights = self.updates.use_again(op, copy, found.version, moment)
        y, saved = self._layer(op, weights, found.x, found.owner)
        at_loss = None
        if op.stage == self.last_stage:
            at_loss = layers.loss_gradient(self.num, y, self.problem.data(*found.owner)[1])
        kept = Activation(found.owner, found.version, moment.end, saved=saved, at_loss=at_loss)
        self.activations.change(op, copy, kept)
        return True

    def _backward(self, op: Op, copy: Copy, moment: Moment) -> bool:
        reached = self._reach_back(op, copy, moment)
        if reached is None:
            return False
        _, saved, weights, gradient = reached
        at_x, of_slice = layers.backward(self.num, weights, saved, gradient)
        self.activations.release(op, copy)
        self._send_gradient(op, at_x, moment)
        self.updates.add(op, copy, of_slice, moment)
        return True

    def _backward_input(self, op: Op, copy: Copy, moment: Moment) -> bool:
        reached = self._reach_back(op, copy, moment)
        if reached is None:
            return False
        found, saved, weights, gradient = reached
        at_x, pending = layers.backward_input(self.num, weights, saved, gradient)
        kept = Activation(found.owner, found.version, moment.end, pending=pending)
        self.activations.change(op, copy, kept)
        self._send_gradient(op, at_x, moment)
        return True

    def _backward_weights(self, op: Op, copy: Copy, moment: Moment) -> bool:
        found = self.activations.find(op, copy, "pending", "what its I leaves behind", moment)
        if found is None or found.pending is None:
            return False
        self.activations.release(op, copy)
        self.activations.consume(op, copy)
        self.updates.add(op, copy, layers.backward_weights(self.num, found.pending), moment)
        return True

    def _reduce(self, op: Op, copy: Copy, moment: Moment) -> bool:
        self.updates.reduce(op, copy, moment)
        return True

    def _step(self, op: Op, copy: Copy, moment: Moment) -> bool:
        self.updates.step(op, copy, moment)
        return True

    # ---- computing --------------------------------------------------------------------------------------------------

    def _layer(self, op: Op, weights: Parameters, x: Matrix, owner: Owner) -> tuple[Matrix, Saved]:
        mask = self.masks.mask(op.stage, [owner], again=op.kind is OpKind.R) if self.masks else None
        return layers.forward(self.num, weights, x, mask=mask, centred=self.problem.batch_statistics)

    def _update_mean(self, copy: Copy, x: Matrix) -> None:
        mean = layers.batch_mean(self.num, x)
        if copy in self.means:
            total = self.num.add(self.means[copy], mean)
            mean = self.num.halved_where(total, [[True] * len(row) for row in total.rows])
        self.means[copy] = mean

    def _reach_back(self, op: Op, copy: Copy, moment: Moment) -> tuple[Activation, Saved, Parameters, Matrix] | None:
        """What a backward starts from: its activation, the weights it sees, the gradient at its output."""
        message = None if op.stage == self.last_stage else self._receive(op, copy, "gradient", moment)
        if message is None and op.stage != self.last_stage:
            return None
        found = self.activations.find(op, copy, "saved", "the activation saved by its forward", moment)
        if found is None or found.saved is None:
            return None
        gradient = found.at_loss if message is None else message.content
        if gradient is None:
            return None
        weights = self.updates.use_again(op, copy, found.version, moment)
        self.activations.consume(op, copy)
        return found, found.saved, weights, gradient

    # ---- messages ---------------------------------------------------------------------------------------------------

    def _send(self, op: Op, stage: int, direction: str, content: Matrix, moment: Moment) -> None:
        owner = owner_of(op)
        rank = self.schedule.placement.rank_of(stage, owner[1], self.schedule.num_microbatches)
        self.messages.put((rank, stage, direction), Message(owner, content, moment.arrival))

    def _send_gradient(self, op: Op, at_x: Matrix, moment: Moment) -> None:
        if op.stage > 0:
            self._send(op, op.stage - 1, "gradient", at_x, moment)

    def _receive(self, op: Op, copy: Copy, direction: str, moment: Moment) -> Message | None:
        owner = owner_of(op)
        neighbour = op.stage - 1 if direction == "activation" else op.stage + 1
        message = self.messages.take((*copy, direction), owner)
        if message is None:
            what = f"needs the {direction} of {owner_text(owner)} from stage {neighbour}, which is not there"
            self._fault(MissingMessage(op, moment.text, what))
            return None
        if message.owner != owner:
            what = f"takes the {direction} of {owner_text(message.owner)} from stage {neighbour}"
            self._fault(WrongMicrobatch(op, moment.text, what))
        if moment.start < message.arrival:
            what = f"starts before the {direction} from stage {neighbour} is there"
            self._fault(EarlyUse(op, moment.text, what))
        return message


_DO: dict[OpKind, Callable[[Machine, Op, Copy, Moment], bool]] = {
    OpKind.F: Machine._forward,
    OpKind.B: Machine._backward,
    OpKind.I: Machine._backward_input,
    OpKind.W: Machine._backward_weights,
    OpKind.R: Machine._recompute,
    OpKind.REDUCE: Machine._reduce,
    OpKind.STEP: Machine._step,
}
