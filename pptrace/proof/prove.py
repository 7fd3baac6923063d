"""`prove`: a schedule in, a verdict out. It puts the problem, the executor, the reference and the comparison together."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pptrace.analysis.closed_forms import params_of
from pptrace.analysis.weight_versions import DOUBLE_BUFFERED
from pptrace.deadlock import DeadlockError
from pptrace.errors import ParameterError, ScheduleError
from pptrace.model import OpKind, Schedule
from pptrace.proof.arithmetic import Exact
from pptrace.proof.compare import Compared, Comparison, compare
from pptrace.proof.executor import finish_steps, run_timeline, run_untimed
from pptrace.proof.machine import Machine
from pptrace.proof.messages import MessageMachine
from pptrace.proof.problem import Problem, require_short_numbers
from pptrace.proof.reference import Owner, Reference, unsplit
from pptrace.proof.written import Written
from pptrace.schedules.registry import REGISTRY, with_remedy
from pptrace.schedules.updates import with_updates
from pptrace.timeline import Timeline, simulate_schedule

if TYPE_CHECKING:
    from pptrace.costs import Costs
    from pptrace.model import Op
    from pptrace.proof.faults import StateFault


class Proof(NamedTuple):
    """The verdict on one schedule. `faults` are ops that could not use their state, or used what they must not, in the order
    of the run. `refused` says why the engine gave the order no times (then it was run rank by rank), else it is empty."""

    schedule: Schedule
    problem: Problem
    updates: tuple[tuple[Owner, ...], ...]
    comparison: Comparison
    faults: tuple[StateFault, ...]
    refused: str
    machine: Machine
    reference: Reference

    @property
    def proved(self) -> bool:
        """Every number as in the unsplit step, every state used as it should be, by an order that the engine can run."""
        return self.comparison.equal and not self.faults and not self.refused

    def sentence(self) -> str:
        """The verdict in one sentence."""
        found = self.comparison
        if found.equal:
            same = "equal the unsplit step" + ("" if self.problem.arithmetic.name == "exact" else " up to rounding")
            stages = self.schedule.num_stages
            of_stages = "the stage" if stages == 1 else f"all {stages} stages"
            return f"outputs, losses, gradients of {of_stages} and updated weights {same}"
        first = _of_forwards(found.outputs, found.losses)
        bad = [part for part in found.gradients if not part.equal]
        if not bad:
            weights = next((part for part in found.weights if not part.equal), None)
            where = "" if weights is None else f", updated weights of stage {weights.stage} differ"
            return f"{first}, gradients equal{where}"
        return ", ".join([first, *self._gradient_clauses(bad)])

    def _gradient_clauses(self, bad: list[Compared]) -> list[str]:
        """Per stage the first update that is not right; what comes after it starts from other weights."""
        first: dict[int, Compared] = {}
        for part in bad:
            first.setdefault(part.stage or 0, part)
        clauses: dict[str, list[int]] = {}
        for stage, part in sorted(first.items()):
            clauses.setdefault(_clause(part, len(self.updates)), []).append(stage)
        return [
            f"gradients of stage{'s' * (len(stages) > 1)} {_numbers(stages)} {text}" for text, stages in clauses.items()
        ]


def _of_forwards(outputs: Compared, losses: Compared) -> str:
    bad = [part for part in (outputs, losses) if not part.equal]
    if not bad:
        return "outputs and losses equal"
    what = " and ".join(part.what for part in bad)
    if all(part.missing and part.difference is None for part in bad):
        return f"{what} incomplete: {_owners(outputs.missing)} missing"
    return f"{what} differ"


def _clause(part: Compared, num_updates: int) -> str:
    step = f" in update {part.update}" if num_updates > 1 else ""
    said = []
    if part.missing:
        said.append(f"incomplete{step}: {_owners(part.missing)} missing")
    if part.late:
        said.append(f"incomplete{step}: {_owners(part.late)} came after the update")
    if part.doubled:
        said.append(f"wrong{step}: {_owners(part.doubled)} counted twice")
    if part.mixed:
        said.append(f"wrong{step}: {_owners(part.mixed)} taken from another microbatch's state")
    if said:
        return " and ".join(said)
    on = (part.update or 0) + 1 < num_updates
    return f"differ from update {part.update} on" if on else f"differ{step}"


def _owners(owners: tuple[Owner, ...]) -> str:
    noun = "microbatch" if len(owners) == 1 else "microbatches"
    return f"{noun} {_numbers([microbatch for _, microbatch in owners])}"


def _numbers(numbers: list[int]) -> str:
    shown = [str(number) for number in numbers]
    return " ".join(shown if len(shown) <= 16 else [*shown[:15], f"... ({len(shown)} in all)"])


def prove(
    subject: Schedule | Timeline | Written,
    costs: Costs | None = None,
    *,
    steps: int = 1,
    problem: Problem | None = None,
    slots: int | None = None,
    tagged: bool = True,
    strict: bool = False,
    reference: Reference | None = None,
) -> Proof:
    """Run `subject` op by op on a small model and compare with the unsplit step.

    A Timeline is followed in time; a Schedule is timed with `costs` first, and run rank by rank where the engine refuses
    it; a Written is run rank by rank as it stands, with its own messages, buffered, where it has them. A Schedule without
    updates gets REDUCE and STEP at its end and is repeated `steps` times; whatever holds updates is taken as it is.
    `problem` sets arithmetic, dropout and normalisation (default: exact, none, mean); `slots` and `tagged` are the
    Machine's. `reference` may be handed in where many schedules share one problem. Raises `LimitError` where exact numbers
    would become too long, `ParameterError` for steps that cannot be, `StateFault` when strict.
    """
    timeline = subject if isinstance(subject, Timeline) else None
    schedule = subject if isinstance(subject, Schedule) else subject.schedule
    problem = problem or Problem(schedule.num_stages, schedule.num_microbatches)
    exact = isinstance(problem.arithmetic, Exact)
    if exact and not schedule.asynchronous:
        require_short_numbers(schedule.num_stages, schedule.num_microbatches, max(steps, schedule.num_steps))
    if isinstance(subject, Schedule):
        schedule = _with_boundary(schedule, steps)
    elif steps not in (1, schedule.num_steps):
        message = f"{schedule.name} has its own times, of {schedule.num_steps} steps; leave --steps out"
        raise ParameterError(message)
    updates = _updates(schedule)
    if exact:
        require_short_numbers(schedule.num_stages, len(updates[0]) if updates else 1, len(updates))
    if schedule.asynchronous and updates:
        problem = problem.averaged_over(len(updates[0]))
    machine: Machine
    if isinstance(subject, Written):
        kind = MessageMachine if subject.has_messages else Machine
        machine = kind(problem, schedule, strict=strict, slots=slots, tagged=tagged)
        refused = subject.refused
        run_untimed(machine, subject.orders)
    else:
        uses_version = _version_before_the_newest if schedule.name == DOUBLE_BUFFERED else None
        machine = Machine(problem, schedule, strict=strict, slots=slots, tagged=tagged, uses_version=uses_version)
        refused = _run(machine, timeline, costs)
    if OpKind.STEP not in schedule.kinds():
        finish_steps(machine, schedule)
    reference = reference or unsplit(problem, updates)
    comparison = compare(machine, reference, updates)
    return Proof(schedule, problem, updates, comparison, tuple(machine.faults), refused, machine, reference)


def _run(machine: Machine, timeline: Timeline | None, costs: Costs | None) -> str:
    """Run the machine's schedule in time, or without times; in that case: why the engine has none."""
    if timeline is None:
        try:
            timeline = simulate_schedule(machine.schedule, costs)
        except (ScheduleError, DeadlockError) as error:
            run_untimed(machine, list(machine.schedule))
            name = machine.schedule.name
            if isinstance(error, DeadlockError) and name in REGISTRY:
                return str(with_remedy(error, name, params_of(machine.schedule)))
            return str(error)
    run_timeline(machine, timeline)
    return ""


def _version_before_the_newest(op: Op) -> int:
    return max(op.step - 1, 0)


def _with_boundary(schedule: Schedule, steps: int) -> Schedule:
    """`schedule` with an update at the end of every step, as it is where it has any."""
    if OpKind.STEP in schedule.kinds():
        if steps not in (1, schedule.num_steps):
            message = f"{schedule.name} holds {schedule.num_steps} optimizer steps already; leave --steps out"
            raise ParameterError(message)
        return schedule
    if schedule.num_steps > 1:
        message = (
            f"{schedule.name} holds {schedule.num_steps} steps but no STEP op; give each its update, or prove one step"
        )
        raise ParameterError(message)
    return with_updates(schedule, steps)


def _updates(schedule: Schedule) -> tuple[tuple[Owner, ...], ...]:
    """The microbatches of every update: a step's, or, without a flush, those from the one that a STEP is numbered with."""
    num = schedule.num_microbatches
    owners = [(step, microbatch) for step in range(schedule.num_steps) for microbatch in range(num)]
    if not schedule.asynchronous:
        return tuple(tuple(owners[step * num : (step + 1) * num]) for step in range(schedule.num_steps))
    run = schedule.coder.run(OpKind.STEP, 0)
    starts = sorted(code - run.start for code in schedule.codes if code in run)
    return tuple(tuple(owners[first:last]) for first, last in zip(starts, [*starts[1:], len(owners)], strict=True))
