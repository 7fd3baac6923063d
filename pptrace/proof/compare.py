"""The comparison: what a run computed beside the unsplit step, number by number, and the verdict. It computes no gradients."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from typing import TYPE_CHECKING, NamedTuple

from pptrace.model import OpKind
from pptrace.proof.arithmetic import Exact, Floating
from pptrace.proof.faults import WrongMicrobatch
from pptrace.proof.layers import plus
from pptrace.proof.state import copies_of, owner_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pptrace.proof.arithmetic import Arithmetic, Matrix
    from pptrace.proof.layers import Parameters
    from pptrace.proof.machine import Machine
    from pptrace.proof.reference import Reference
    from pptrace.proof.state import Copy, Gradient, Owner

SLACK_ULPS = 4096
"""Sums in another order may differ in the last places, and every update carries that on. So many units in the last place of
the largest number of a group are let pass (in float32 that is 1/4096 of the number). What is lost or doubled is found by
its owners as well."""

_ADDING = (OpKind.B, OpKind.I, OpKind.W)


class Difference(NamedTuple):
    """The first number that is not the same: where (`matrix[0][1]`), what the run has and what the unsplit step has."""

    where: str
    found: Fraction
    expected: Fraction


class Compared(NamedTuple):
    """One thing compared: "gradient" of a stage and update, "weights" of a copy after an update, "outputs" or "losses" of
    all microbatches.

    `equal` is exact in exact arithmetic, and up to rounding in floating-point, where `ulps` is the largest difference in
    units in the last place of the largest number of the group. `missing`, `late` and `doubled` are microbatches
    (step, microbatch) that are not in the gradient, came too late for it, or are in it more than once; `mixed` are in it
    with what was taken from another microbatch's state.
    """

    what: str
    equal: bool
    difference: Difference | None = None
    stage: int | None = None
    update: int | None = None
    rank: int | None = None
    missing: tuple[Owner, ...] = ()
    doubled: tuple[Owner, ...] = ()
    late: tuple[Owner, ...] = ()
    mixed: tuple[Owner, ...] = ()
    absent: bool = False
    ulps: Fraction | None = None
    largest_error: Fraction = Fraction(0)


class Count(NamedTuple):
    """How many ops of a kind ran, and how many a whole run has (None: as many as the schedule likes)."""

    kind: OpKind
    ran: int
    wanted: int | None


class Comparison(NamedTuple):
    """All of it. `equal` is the verdict on the numbers."""

    outputs: Compared
    losses: Compared
    gradients: tuple[Compared, ...]
    weights: tuple[Compared, ...]
    counts: tuple[Count, ...]

    @property
    def equal(self) -> bool:
        return self.outputs.equal and self.losses.equal and all(part.equal for part in self.gradients + self.weights)


def compare(machine: Machine, reference: Reference, updates: Sequence[Sequence[Owner]]) -> Comparison:
    """Everything that `machine` has computed beside `reference`, whose updates had the microbatches `updates`."""
    num, schedule = machine.num, machine.schedule
    owners = sorted(reference.outputs)
    outputs = _compare_owned(num, "outputs", machine.outputs, reference.outputs, owners)
    losses = _compare_owned(num, "losses", machine.losses, reference.losses, owners)
    gradients = [
        _compare_gradient(machine, reference.gradients[k][stage], stage, k, updates[k])
        for k in range(len(updates))
        for stage in range(schedule.num_stages)
    ]
    weights = [
        _compare_weights(machine, copy, reference.weights[k][copy[1]], k, len(updates))
        for k in range(1, len(updates) + 1)
        for copy in copies_of(schedule)
    ]
    return Comparison(outputs, losses, tuple(gradients), tuple(weights), _counts(machine, len(owners)))


def _compare_owned(
    num: Arithmetic, what: str, found: dict[Owner, Matrix], expected: dict[Owner, Matrix], owners: Iterable[Owner]
) -> Compared:
    missing = tuple(owner for owner in owners if owner not in found)
    worst = _Worst(num)
    for owner in owners:
        if owner in found:
            step = f"@{owner[0]}" if owner[0] else ""
            worst.take(f"microbatch {owner[1]}{step} ", found[owner], expected[owner])
    return Compared(
        what,
        worst.equal and not missing,
        worst.difference,
        missing=missing,
        ulps=worst.ulps,
        largest_error=worst.error,
    )


def _compare_gradient(
    machine: Machine, expected: Parameters, stage: int, update: int, owners: Sequence[Owner]
) -> Compared:
    """The gradient of one stage as its STEP used it; as far as it was summed where the run did not get there."""
    updates = machine.updates
    copies = [copy for copy in copies_of(machine.schedule) if copy[1] == stage]
    used = [updates.reduced[copy, update] for copy in copies if (copy, update) in updates.reduced]
    added = [updates.gradients[copy, update] for copy in copies if (copy, update) in updates.gradients]
    come = Counter(owner for part in added for owner in part.owners)
    counted = Counter(used[0].owners) if used else come
    worst = _Worst(machine.num)
    for total in [part.total for part in used] or _summed(machine.num, added):
        worst.take_parameters(total, expected)
    late = tuple(owner for owner in owners if come[owner] and not counted[owner])
    missing = tuple(owner for owner in owners if not come[owner])
    doubled = tuple(sorted(owner for owner, times in counted.items() if times > 1))
    mixed = {
        owner_of(fault.op)
        for fault in machine.faults
        if isinstance(fault, WrongMicrobatch) and fault.op.stage == stage and fault.op.kind in _ADDING
    }
    return Compared(
        "gradient",
        bool(added) and worst.equal and not (missing or late or doubled),
        worst.difference,
        stage=stage,
        update=update,
        missing=missing,
        doubled=doubled,
        late=late,
        mixed=tuple(owner for owner in owners if owner in mixed and counted[owner]),
        ulps=worst.ulps,
        largest_error=worst.error,
    )


def _summed(num: Arithmetic, added: list[Gradient]) -> list[Parameters]:
    """The sum over the copies of a stage, as a list of one; empty where nothing was added."""
    if not added:
        return []
    total = added[0].total
    for part in added[1:]:
        total = plus(num, total, part.total)
    return [total]


def _compare_weights(machine: Machine, copy: Copy, expected: Parameters, update: int, num_updates: int) -> Compared:
    """The weights of one copy after `update` updates; a copy that was stepped more or less often is not equal."""
    history = machine.updates.weights.get(copy, [])
    worst = _Worst(machine.num)
    if len(history) > update:
        worst.take_parameters(history[update], expected)
    return Compared(
        "weights",
        len(history) == num_updates + 1 and worst.equal,
        worst.difference,
        stage=copy[1],
        update=update - 1,
        rank=copy[0],
        absent=len(history) <= update,
        ulps=worst.ulps,
        largest_error=worst.error,
    )


def _counts(machine: Machine, num_owners: int) -> tuple[Count, ...]:
    """The ops that ran, by kind; every backward is one B, or one I and one W."""
    ran, schedule = machine.counts, machine.schedule
    whole = schedule.num_stages * num_owners
    split = 0
    if OpKind.I in schedule.kinds():
        inputs = range(schedule.coder.base(OpKind.I, 0), schedule.coder.base(OpKind.W, 0))
        split = min(whole, len({code for code in schedule.codes if code in inputs}))
    wanted = {OpKind.F: whole, OpKind.B: whole - split, OpKind.I: split, OpKind.W: split}
    return tuple(Count(kind, ran[kind], wanted.get(kind)) for kind in OpKind if ran[kind] or wanted.get(kind))


class _Worst:
    """Collects pairs of matrices that should be the same: the first difference, the largest one, and ulps."""

    def __init__(self, num: Arithmetic) -> None:
        self.num = num
        self.difference: Difference | None = None
        self.error = Fraction(0)
        self.ulps: Fraction | None = None if isinstance(num, Exact) else Fraction(0)
        self.broken = False

    @property
    def equal(self) -> bool:
        """The same, up to rounding where the arithmetic rounds."""
        if self.broken or self.difference is None:
            return not self.broken
        return self.ulps is not None and self.ulps <= SLACK_ULPS

    def take_parameters(self, found: Parameters, expected: Parameters) -> None:
        self.take("matrix", found.matrix, expected.matrix)
        self.take("bias", found.bias, expected.bias)

    def take(self, name: str, found: Matrix, expected: Matrix) -> None:
        num = self.num
        if num.equal(found, expected):
            return
        if isinstance(num, Floating) and not (num.finite(found) and num.finite(expected)):
            self.broken = True
            return
        largest = Fraction(0)
        worst_here = Fraction(0)
        for row in range(len(expected.rows)):
            for column in range(len(expected.rows[row])):
                have, want = num.value(found, row, column), num.value(expected, row, column)
                largest = max(largest, abs(want))
                worst_here = max(worst_here, abs(have - want))
                if have != want and self.difference is None:
                    self.difference = Difference(f"{name}[{row}][{column}]", have, want)
        self.error = max(self.error, worst_here)
        if isinstance(num, Floating):
            self.ulps = max(self.ulps or Fraction(0), worst_here / num.ulp(largest))
