"""The state of a pipeline while a schedule runs on the small model: weights, activations, messages, gradients, each with its
owner. `Machine.run` does one op and takes strictly what is there; which op comes next is decided elsewhere (executor.py).

A fault is raised when `strict`, else written down, and the op then does what a careless runtime would: it is left out where
there is nothing to compute with, and otherwise goes on with the wrong state.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from pptrace.model import OpKind
from pptrace.proof import layers
from pptrace.proof.faults import (
    EarlyUse,
    LateGradient,
    MissingActivation,
    MissingMessage,
    MissingReduction,
    RepeatedOp,
    SlotReused,
    StateFault,
    WrongMicrobatch,
    WrongVersion,
)
from pptrace.proof.state import NEVER_TIMED, Activation, Gradient, Mailboxes, Message, owner_of, owner_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from pptrace.model import Op, Schedule
    from pptrace.proof.arithmetic import Matrix
    from pptrace.proof.layers import Parameters, Saved
    from pptrace.proof.problem import Problem
    from pptrace.proof.state import Copy, Owner


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
        self.slots = slots
        self.uses_version = uses_version
        self.last_stage = schedule.num_stages - 1
        self.masks = problem.masks()
        recomputed = range(schedule.coder.base(OpKind.R, 0), schedule.coder.base(OpKind.REDUCE, 0))
        self.recomputed = {
            schedule.coder.op(code)._replace(kind=OpKind.F) for code in schedule.codes if code in recomputed
        }
        self.weights: dict[Copy, list[Parameters]] = {}
        self.activations: dict[tuple[int, int, object], Activation] = {}
        self.consumed: dict[tuple[Copy, Owner], Op] = {}
        self.messages = Mailboxes(tagged=tagged)
        self.gradients: dict[tuple[Copy, int], Gradient] = {}
        self.reduced: dict[tuple[Copy, int], Gradient] = {}
        self.closed: set[tuple[int, int]] = set()
        self.means: dict[Copy, Matrix] = {}
        self.outputs: dict[Owner, Matrix] = {}
        self.losses: dict[Owner, Matrix] = {}
        self.counts: Counter[OpKind] = Counter()
        self.ran: set[Op] = set()
        self.faults: list[StateFault] = []
        self._at = ""
        self._start = self._arrival = self._end = NEVER_TIMED

    # ---- one op -----------------------------------------------------------------------------------------------------

    def run(
        self, op: Op, rank: int, at: str, start: int = NEVER_TIMED, end: int = NEVER_TIMED, arrival: int = NEVER_TIMED
    ) -> None:
        """Do `op` on `rank`. `at` says when, for faults; ticks are NEVER_TIMED where the order has no times. Raises
        `StateFault` when strict."""
        self._at, self._start, self._end, self._arrival = at, start, end, arrival
        if op in self.ran:
            self._fault(RepeatedOp(op, at, "runs a second time"))
        done = _DO[op.kind](self, op, (rank, op.stage))
        if done:
            self.ran.add(op)
            self.counts[op.kind] += 1

    def has_input(self, op: Op, rank: int) -> bool:
        """Whether the message that `op` needs is there."""
        direction = self._direction(op)
        if direction is None:
            return True
        return self.messages.has((rank, op.stage, direction), owner_of(op))

    def _direction(self, op: Op) -> str | None:
        if op.kind is OpKind.F and op.stage > 0:
            return "activation"
        if op.kind in (OpKind.B, OpKind.I) and op.stage < self.last_stage:
            return "gradient"
        return None

    def _fault(self, fault: StateFault) -> None:
        if self.strict:
            raise fault
        self.faults.append(fault)

    # ---- the kinds of op --------------------------------------------------------------------------------------------

    def _forward(self, op: Op, copy: Copy) -> bool:
        owner = owner_of(op)
        if op.stage == 0:
            x, target = self.problem.data(*owner)
        else:
            message = self._receive(op, copy, "activation")
            if message is None:
                return False
            x = message.content
        version = len(self._history(copy)) - 1 if self.uses_version is None else self.uses_version(op)
        version = max(0, min(version, len(self._history(copy)) - 1))
        if self.problem.batch_statistics:
            self._update_mean(copy, x)
        y, saved = self._layer(op, copy, version, x, owner)
        at_loss = None
        if op.stage == self.last_stage:
            target = self.problem.data(*owner)[1]
            self.outputs[owner] = y
            self.losses[owner] = layers.loss(self.num, y, target)
            at_loss = layers.loss_gradient(self.num, y, target)
        else:
            self._send(op, op.stage + 1, "activation", y)
        kept = Activation(owner, version, self._end, saved=saved, at_loss=at_loss)
        if op in self.recomputed:
            kept = Activation(owner, version, self._end, x=x)
        self._store(op, copy, kept)
        return True

    def _recompute(self, op: Op, copy: Copy) -> bool:
        found = self._activation(op, copy, "x", "the input kept by its forward")
        if found is None or found.x is None:
            return False
        self._check_version(op, copy, found)
        y, saved = self._layer(op, copy, found.version, found.x, found.owner)
        at_loss = None
        if op.stage == self.last_stage:
            at_loss = layers.loss_gradient(self.num, y, self.problem.data(*found.owner)[1])
        self.activations[self._slot(op, copy)] = Activation(
            found.owner, found.version, self._end, saved=saved, at_loss=at_loss
        )
        return True

    def _backward(self, op: Op, copy: Copy) -> bool:
        reached = self._reach_back(op, copy)
        if reached is None:
            return False
        found, weights, gradient = reached
        if found.saved is None:
            return False
        at_x, of_slice = layers.backward(self.num, weights, found.saved, gradient)
        del self.activations[self._slot(op, copy)]
        self._send_gradient(op, at_x)
        self._accumulate(op, copy, of_slice)
        return True

    def _backward_input(self, op: Op, copy: Copy) -> bool:
        reached = self._reach_back(op, copy)
        if reached is None:
            return False
        found, weights, gradient = reached
        if found.saved is None:
            return False
        at_x, pending = layers.backward_input(self.num, weights, found.saved, gradient)
        self.activations[self._slot(op, copy)] = Activation(found.owner, found.version, self._end, pending=pending)
        self._send_gradient(op, at_x)
        return True

    def _backward_weights(self, op: Op, copy: Copy) -> bool:
        found = self._activation(op, copy, "pending", "what its I leaves behind")
        if found is None or found.pending is None:
            return False
        del self.activations[self._slot(op, copy)]
        self.consumed[copy, owner_of(op)] = op
        self._accumulate(op, copy, layers.backward_weights(self.num, found.pending))
        return True

    def _reduce(self, op: Op, copy: Copy) -> bool:
        update = self._update_of(op, copy)
        total: Gradient | None = None
        for (other, number), part in sorted(self.gradients.items(), key=lambda item: item[0]):
            if other[1] == op.stage and number == update:
                total = (
                    part
                    if total is None
                    else Gradient(layers.plus(self.num, total.total, part.total), total.owners + part.owners)
                )
        if total is not None:
            self.reduced[copy, update] = total
        self.closed.add((op.stage, update))
        return True

    def _step(self, op: Op, copy: Copy) -> bool:
        update = self._update_of(op, copy)
        gradient = self.reduced.get((copy, update)) or self.gradients.get((copy, update))
        history = self._history(copy)
        self.closed.add((op.stage, update))
        if (copy, update) not in self.reduced and gradient is not None and OpKind.REDUCE in self.schedule.kinds():
            self._fault(MissingReduction(op, self._at, f"steps before the gradient of stage {op.stage} was reduced"))
        if gradient is None:
            history.append(history[-1])
        else:
            self.reduced[copy, update] = gradient
            history.append(layers.stepped(self.num, history[-1], gradient.total, self.problem.rate))
        return True

    # ---- state ------------------------------------------------------------------------------------------------------

    def _history(self, copy: Copy) -> list[Parameters]:
        """The weight versions of one copy, oldest first."""
        return self.weights.setdefault(copy, [self.problem.weights[copy[1]]])

    def _layer(self, op: Op, copy: Copy, version: int, x: Matrix, owner: Owner) -> tuple[Matrix, Saved]:
        mask = self.masks.mask(op.stage, [owner]) if self.masks else None
        weights = self._history(copy)[version]
        return layers.forward(self.num, weights, x, mask=mask, centred=self.problem.batch_statistics)

    def _update_mean(self, copy: Copy, x: Matrix) -> None:
        mean = layers.batch_mean(self.num, x)
        if copy in self.means:
            total = self.num.add(self.means[copy], mean)
            mean = self.num.halved_where(total, [[True] * len(row) for row in total.rows])
        self.means[copy] = mean

    def _slot(self, op: Op, copy: Copy) -> tuple[int, int, object]:
        owner = owner_of(op)
        return (*copy, owner if self.slots is None else owner[1] % self.slots)

    def _store(self, op: Op, copy: Copy, kept: Activation) -> None:
        slot = self._slot(op, copy)
        held = self.activations.get(slot)
        if held is not None and held.owner != kept.owner:
            self._fault(
                SlotReused(
                    op,
                    self._at,
                    f"takes slot {slot[2]} of stage {op.stage}, which still holds the activation of "
                    f"{owner_text(held.owner)}: its backward has not run",
                )
            )
        self.activations[slot] = kept

    def _activation(self, op: Op, copy: Copy, state: str, what: str) -> Activation | None:
        """The activation that `op` needs, in the state that it needs it in."""
        owner = owner_of(op)
        found = self.activations.get(self._slot(op, copy))
        if found is None or getattr(found, state) is None:
            self._fault(MissingActivation(op, self._at, f"needs {what}, {self._why_missing(op, copy, found)}"))
            return None
        if found.owner != owner:
            self._fault(
                WrongMicrobatch(
                    op,
                    self._at,
                    f"finds the activation of {owner_text(found.owner)} where that of "
                    f"{owner_text(owner)} should be, and takes it",
                )
            )
        if self._start < found.ready:
            self._fault(EarlyUse(op, self._at, f"starts before {what} is there"))
        return found

    def _why_missing(self, op: Op, copy: Copy, found: Activation | None) -> str:
        by = self.consumed.get((copy, owner_of(op)))
        if found is not None and found.x is not None:
            return "but only the input was kept: its R has not run"
        if by is not None:
            return f"which {by} has consumed"
        held = sorted(a.owner for key, a in self.activations.items() if key[:2] == copy)
        others = " ".join(owner_text(o, short=True) for o in held[:8]) + (" ..." if len(held) > 8 else "")
        return "which is not there" + (f"; stage {op.stage} holds that of microbatch {others}" if held else "")

    def _reach_back(self, op: Op, copy: Copy) -> tuple[Activation, Parameters, Matrix] | None:
        """What a backward starts from: its activation, the weights it sees, the gradient at its output."""
        message = None if op.stage == self.last_stage else self._receive(op, copy, "gradient")
        if message is None and op.stage != self.last_stage:
            return None
        found = self._activation(op, copy, "saved", "the activation saved by its forward")
        if found is None:
            return None
        gradient = found.at_loss if message is None else message.content
        if gradient is None:
            return None
        weights = self._check_version(op, copy, found)
        self.consumed[copy, owner_of(op)] = op
        return found, weights, gradient

    def _check_version(self, op: Op, copy: Copy, found: Activation) -> Parameters:
        """The weights that a backward sees: the forward's own where they are stashed, else those that are there."""
        history = self._history(copy)
        if self.schedule.asynchronous:
            return history[found.version]
        if found.version != len(history) - 1:
            self._fault(
                WrongVersion(
                    op, self._at, f"sees weight version {len(history) - 1}, its forward saw version {found.version}"
                )
            )
        return history[-1]

    # ---- messages ---------------------------------------------------------------------------------------------------

    def _send(self, op: Op, stage: int, direction: str, content: Matrix) -> None:
        owner = owner_of(op)
        rank = self.schedule.placement.rank_of(stage, owner[1], self.schedule.num_microbatches)
        self.messages.put((rank, stage, direction), Message(owner, content, self._arrival))

    def _send_gradient(self, op: Op, at_x: Matrix) -> None:
        if op.stage > 0:
            self._send(op, op.stage - 1, "gradient", at_x)

    def _receive(self, op: Op, copy: Copy, direction: str) -> Message | None:
        owner = owner_of(op)
        neighbour = op.stage - 1 if direction == "activation" else op.stage + 1
        message = self.messages.take((*copy, direction), owner)
        if message is None:
            self._fault(
                MissingMessage(
                    op,
                    self._at,
                    f"needs the {direction} of {owner_text(owner)} from stage {neighbour}, which is not there",
                )
            )
            return None
        if message.owner != owner:
            self._fault(
                WrongMicrobatch(
                    op, self._at, f"takes the {direction} of {owner_text(message.owner)} from stage {neighbour}"
                )
            )
        if self._start < message.arrival:
            self._fault(EarlyUse(op, self._at, f"starts before the {direction} from stage {neighbour} is there"))
        return message

    # ---- gradients --------------------------------------------------------------------------------------------------

    def _update_of(self, op: Op, copy: Copy) -> int:
        """Which update a gradient or boundary op belongs to: its step, or the next one where there is no flush."""
        return len(self._history(copy)) - 1 if self.schedule.asynchronous else op.step

    def _accumulate(self, op: Op, copy: Copy, of_slice: Parameters) -> None:
        owner = owner_of(op)
        key = (copy, self._update_of(op, copy))
        share = layers.times(self.num, of_slice, self.problem.shares[owner[1]])
        if (op.stage, key[1]) in self.closed and not self.schedule.asynchronous:
            self._fault(
                LateGradient(
                    op,
                    self._at,
                    f"adds the gradient of {owner_text(owner)} after stage {op.stage} was reduced: "
                    "the update has left it out",
                )
            )
        before = self.gradients.get(key)
        if before is None:
            self.gradients[key] = Gradient(share, (owner,))
        else:
            self.gradients[key] = Gradient(layers.plus(self.num, before.total, share), (*before.owners, owner))


_DO: dict[OpKind, Callable[[Machine, Op, Copy], bool]] = {
    OpKind.F: Machine._forward,
    OpKind.B: Machine._backward,
    OpKind.I: Machine._backward_input,
    OpKind.W: Machine._backward_weights,
    OpKind.R: Machine._recompute,
    OpKind.REDUCE: Machine._reduce,
    OpKind.STEP: Machine._step,
}
