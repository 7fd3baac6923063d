"""From choices to a timed schedule: which registered schedule, what is done to its order, the update at the end of a step, the
default costs. The command line and the library both come this way, so that both make the same schedule and the same times."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, NamedTuple

from pptrace.costs import Costs, Values
from pptrace.deadlock import DeadlockError
from pptrace.errors import ParameterError
from pptrace.schedules.registry import DEFAULT_MAX_OPS, Params, build, entry, with_remedy
from pptrace.timeline import Timeline, simulate_schedule

if TYPE_CHECKING:
    from pptrace.model import Schedule


class Recipe(NamedTuple):
    """Everything that makes a registered schedule: its parameters, and what is done to its order."""

    name: str
    params: Params
    split_backward: bool = False
    recompute: str = ""
    """"full", "early" or empty."""
    joint_update: bool = True
    max_ops: int = DEFAULT_MAX_OPS

    @property
    def splits(self) -> bool:
        """Whether I and W run, or pairs: decides the default costs."""
        return self.split_backward or entry(self.name).splits


def make_schedule(recipe: Recipe) -> Schedule:
    """The order of all steps, with REDUCE and STEP where the schedule has a flush.

    Raises `ParameterError` for parameters that the schedule forbids and `LimitError` for more than `max_ops` ops.
    """
    schedule = build(recipe.name, recipe.params, max_ops=recipe.max_ops)
    if recipe.recompute not in ("", "full", "early"):
        message = f"recompute must be full or early, or empty, got {recipe.recompute[:40]!r}"
        raise ParameterError(message)
    if recipe.split_backward or recipe.recompute:
        from pptrace.schedules.transforms import recompute, split_backward  # noqa: PLC0415  (rarely used)

        if recipe.split_backward:
            schedule = split_backward(schedule)
        if recipe.recompute:
            schedule = recompute(schedule, early=recipe.recompute == "early")
    if schedule.asynchronous:
        return schedule
    from pptrace.schedules.updates import with_updates  # noqa: PLC0415

    return with_updates(schedule, recipe.params.num_steps, joint=recipe.joint_update, max_ops=recipe.max_ops)


def time_schedule(recipe: Recipe, costs: Costs) -> Timeline:
    """Make and time a registered schedule. A `DeadlockError` says what to do where the schedule knows it."""
    schedule = make_schedule(recipe)
    try:
        return simulate_schedule(schedule, costs)
    except DeadlockError as error:
        raise with_remedy(error, recipe.name, recipe.params) from None


def with_defaults(
    *,
    forward: Values | None = None,
    backward: Values | None = None,
    weight_grad: Values | None = None,
    splits: bool,
    per: str = "rank",
) -> Costs:
    """The default costs: f=1; b=2 where a schedule splits its backward or overlaps, else 1; w=b/2."""
    full = backward or Values((Fraction(2 if splits else 1),), per)
    half = weight_grad or Values(tuple(number / 2 for number in full.numbers), full.per)
    return Costs(forward=forward or Values((Fraction(1),), per), backward=full, weight_grad=half)
