"""Named faults of a run: an op, when it ran, and what it did not find or should not have used. It decides nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pptrace.errors import PptraceError

if TYPE_CHECKING:
    from pptrace.model import Op


class StateFault(PptraceError):
    """An op that could not use the state it needs, or used what it must not. `op` is the op, `at` says when it ran."""

    def __init__(self, op: Op, at: str, what: str) -> None:
        self.op = op
        self.at = at
        self.what = what
        super().__init__(f"{op} ({at}) {what}")

    @property
    def code(self) -> str:
        """The fault's name in JSON: `missing-activation` for MissingActivation."""
        return "".join("-" * (i > 0) + c.lower() if c.isupper() else c for i, c in enumerate(type(self).__name__))


class MissingActivation(StateFault):
    """The activation is not there: never made, or consumed before."""


class MissingMessage(StateFault):
    """The activation or gradient from the neighbouring stage is not there."""


class WrongMicrobatch(StateFault):
    """The state that was found belongs to another microbatch."""


class WrongVersion(StateFault):
    """Forward and backward of one microbatch saw different weights."""


class SlotReused(StateFault):
    """A forward took a slot whose activation had not been consumed."""


class LateGradient(StateFault):
    """A gradient was added after the stage was reduced or stepped."""


class MissingReduction(StateFault):
    """A STEP used a gradient that was not reduced."""


class RepeatedOp(StateFault):
    """An op ran twice."""


class EarlyUse(StateFault):
    """An op started before what it needs was there."""


class StrayOp(StateFault):
    """An op that has no place in the run: of a stage or microbatch that is not there, or on a rank that does not hold it."""
