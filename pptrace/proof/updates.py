"""The weights of a machine, the gradients that are summed for their next update, and the update itself: gradients are added,
reduced over the copies of a stage, and stepped once, at the boundary and nowhere else."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pptrace.model import OpKind
from pptrace.proof import layers
from pptrace.proof.faults import EarlyUse, LateGradient, MissingReduction, WrongVersion
from pptrace.proof.state import NEVER_TIMED, Gradient, owner_of, owner_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from pptrace.model import Op, Schedule
    from pptrace.proof.faults import StateFault
    from pptrace.proof.layers import Parameters
    from pptrace.proof.problem import Problem
    from pptrace.proof.state import Copy, Moment


class Updates:
    """Weight versions of every copy, oldest first, and gradients by (copy, update). `report` is told of faults."""

    def __init__(self, problem: Problem, schedule: Schedule, report: Callable[[StateFault], None]) -> None:
        self.problem = problem
        self.num = problem.arithmetic
        self.asynchronous = schedule.asynchronous
        self.reduces = OpKind.REDUCE in schedule.kinds()
        self.report = report
        self.weights: dict[Copy, list[Parameters]] = {}
        self.ready: dict[tuple[Copy, int], int] = {}
        self.gradients: dict[tuple[Copy, int], Gradient] = {}
        self.reduced: dict[tuple[Copy, int], Gradient] = {}
        self.closed: set[tuple[int, int]] = set()

    # ---- weights ----------------------------------------------------------------------------------------------------

    def history(self, copy: Copy) -> list[Parameters]:
        """The weight versions of one copy, oldest first."""
        return self.weights.setdefault(copy, [self.problem.weights[copy[1]]])

    def newest(self, copy: Copy) -> int:
        return len(self.history(copy)) - 1

    def use(self, op: Op, copy: Copy, version: int, moment: Moment) -> Parameters:
        """One version of the weights, for an op that starts at `moment`."""
        if moment.start < self.ready.get((copy, version), NEVER_TIMED):
            self.report(EarlyUse(op, moment.text, f"starts before weight version {version} is there"))
        return self.history(copy)[version]

    def use_again(self, op: Op, copy: Copy, version: int, moment: Moment) -> Parameters:
        """The weights that a backward sees: its forward's own where they are stashed, else those that are there by now."""
        newest = self.newest(copy)
        if self.asynchronous:
            return self.use(op, copy, version, moment)
        if version != newest:
            what = f"sees weight version {newest}, its forward saw version {version}"
            self.report(WrongVersion(op, moment.text, what))
        return self.use(op, copy, newest, moment)

    # ---- gradients --------------------------------------------------------------------------------------------------

    def number_of(self, op: Op, copy: Copy) -> int:
        """Which update a gradient or boundary op belongs to: its step, or the next one where there is no flush."""
        return self.newest(copy) if self.asynchronous else op.step

    def add(self, op: Op, copy: Copy, of_slice: Parameters, moment: Moment) -> None:
        """Add the gradient of one microbatch, with its share, to the sum of its update."""
        owner = owner_of(op)
        key = (copy, self.number_of(op, copy))
        if (op.stage, key[1]) in self.closed and not self.asynchronous:
            what = f"adds the gradient of {owner_text(owner)} after stage {op.stage} was reduced: the update has left it out"
            self.report(LateGradient(op, moment.text, what))
        share = layers.times(self.num, of_slice, self.problem.shares[owner[1]])
        before = self.gradients.get(key)
        if before is not None:
            share = layers.plus(self.num, before.total, share)
        owners = (*before.owners, owner) if before else (owner,)
        self.gradients[key] = Gradient(share, owners, max(moment.end, before.ready if before else NEVER_TIMED))

    def reduce(self, op: Op, copy: Copy, moment: Moment) -> None:
        """Sum the gradients of all copies of a stage."""
        update = self.number_of(op, copy)
        parts = [
            part
            for (other, number), part in sorted(self.gradients.items(), key=lambda item: item[0])
            if other[1] == op.stage and number == update
        ]
        self.closed.add((op.stage, update))
        if not parts:
            return
        if moment.start < max(part.ready for part in parts):
            self.report(EarlyUse(op, moment.text, "starts before the last gradient is there"))
        total, owners = parts[0].total, parts[0].owners
        for part in parts[1:]:
            total, owners = layers.plus(self.num, total, part.total), owners + part.owners
        self.reduced[copy, update] = Gradient(total, owners, moment.end)

    def step(self, op: Op, copy: Copy, moment: Moment) -> None:
        """Make the next weight version of one copy."""
        update = self.number_of(op, copy)
        gradient = self.reduced.get((copy, update)) or self.gradients.get((copy, update))
        history = self.history(copy)
        self.closed.add((op.stage, update))
        if gradient is None:
            history.append(history[-1])
        else:
            if (copy, update) not in self.reduced and self.reduces:
                what = f"steps before the gradient of stage {op.stage} was reduced"
                self.report(MissingReduction(op, moment.text, what))
            elif moment.start < gradient.ready:
                self.report(EarlyUse(op, moment.text, "starts before its gradient is there"))
            self.reduced[copy, update] = gradient
            history.append(layers.stepped(self.num, history[-1], gradient.total, self.problem.rate))
        self.ready[copy, len(history) - 1] = moment.end
