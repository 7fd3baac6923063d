"""The activations of a machine: where each is put, who takes it, and what is wrong where it is not there or another's."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pptrace.proof.faults import EarlyUse, MissingActivation, SlotReused, WrongMicrobatch
from pptrace.proof.state import owner_of, owner_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from pptrace.model import Op
    from pptrace.proof.faults import StateFault
    from pptrace.proof.state import Activation, Copy, Moment, Owner

_Slot = tuple[int, int, object]


class Activations:
    """Every activation has its own place; with `slots` those of a stage lie in a ring of that many, microbatch m in m mod
    slots. `report` is told of faults."""

    def __init__(self, slots: int | None, report: Callable[[StateFault], None]) -> None:
        self.slots = slots
        self.report = report
        self.held: dict[_Slot, Activation] = {}
        self.consumed: dict[tuple[Copy, Owner], Op] = {}

    def _slot(self, op: Op, copy: Copy) -> _Slot:
        owner = owner_of(op)
        return (*copy, owner if self.slots is None else owner[1] % self.slots)

    def store(self, op: Op, copy: Copy, kept: Activation, moment: Moment) -> None:
        """A forward puts down what it has computed; an activation of another microbatch that lies there is lost."""
        slot = self._slot(op, copy)
        before = self.held.get(slot)
        if before is not None and before.owner != kept.owner:
            what = (
                f"takes slot {slot[2]} of stage {op.stage}, which still holds the activation of "
                f"{owner_text(before.owner)}: its backward has not run"
            )
            self.report(SlotReused(op, moment.text, what))
        self.held[slot] = kept

    def find(self, op: Op, copy: Copy, state: str, what: str, moment: Moment) -> Activation | None:
        """The activation that `op` needs, in the state that it needs it in (`x`, `saved` or `pending`)."""
        owner = owner_of(op)
        found = self.held.get(self._slot(op, copy))
        if found is None or getattr(found, state) is None:
            self.report(MissingActivation(op, moment.text, f"needs {what}, {self._why_missing(op, copy, found)}"))
            return None
        if found.owner != owner:
            wrong = (
                f"finds the activation of {owner_text(found.owner)} where that of {owner_text(owner)} should be, "
                "and takes it"
            )
            self.report(WrongMicrobatch(op, moment.text, wrong))
        if moment.start < found.ready:
            self.report(EarlyUse(op, moment.text, f"starts before {what} is there"))
        return found

    def change(self, op: Op, copy: Copy, kept: Activation) -> None:
        """Put `kept` in the place of what `op` has found."""
        self.held[self._slot(op, copy)] = kept

    def release(self, op: Op, copy: Copy) -> None:
        """`op` has consumed the last of its activation."""
        del self.held[self._slot(op, copy)]

    def consume(self, op: Op, copy: Copy) -> None:
        """Remember who took the activation of a microbatch, for whoever asks for it again."""
        self.consumed[copy, owner_of(op)] = op

    def _why_missing(self, op: Op, copy: Copy, found: Activation | None) -> str:
        by = self.consumed.get((copy, owner_of(op)))
        if found is not None and found.x is not None:
            return "but only the input was kept: its R has not run"
        if by is not None:
            return f"which {by} has consumed"
        held = sorted(activation.owner for slot, activation in self.held.items() if slot[:2] == copy)
        others = " ".join(owner_text(owner, short=True) for owner in held[:8]) + (" ..." if len(held) > 8 else "")
        return "which is not there" + (f"; stage {op.stage} holds that of microbatch {others}" if held else "")
