"""The library's front door: from a name and numbers to a report, in one call, and a report that shows itself."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from pptrace.analysis.report import Report
from pptrace.costs import Costs, Values
from pptrace.errors import ParameterError
from pptrace.layers import layers_of, with_layers
from pptrace.model import OpKind, Schedule
from pptrace.rationals import parse_rational
from pptrace.recipes import Recipe, make_schedule, time_schedule, with_defaults
from pptrace.schedules.registry import DEFAULT_MAX_OPS, Params
from pptrace.timeline import simulate_schedule

if TYPE_CHECKING:
    from collections.abc import Sequence

    Number = int | float | str | Fraction


MOST_OPS_DRAWN = 5_000


class Simulation(Report):
    """A report that shows itself: as text when printed, as a figure in a notebook."""

    def __str__(self) -> str:
        from pptrace.render.text import report_text  # noqa: PLC0415  (only where something is drawn)

        return report_text(self)

    def _repr_html_(self) -> str:
        """The figure; the text where there are too many ops to look at."""
        if self.schedule.num_ops > MOST_OPS_DRAWN:
            from html import escape  # noqa: PLC0415

            return f"<pre>{escape(str(self))}</pre>"
        from pptrace.render.svg import svg_figure  # noqa: PLC0415

        return svg_figure(self)


def simulate(
    schedule: str | Schedule,
    *,
    num_ranks: int | None = None,
    num_microbatches: int | None = None,
    num_chunks: int | None = None,
    group: int | None = None,
    order: str | None = None,
    forward: Number | Sequence[Number] | None = None,
    backward: Number | Sequence[Number] | None = None,
    weight_grad: Number | Sequence[Number] | None = None,
    comm: Number | Sequence[Number] = 0,
    cost_per: str = "rank",
    layers: int | Sequence[int] | None = None,
    link: str = "latency",
    overlap: str | int | Fraction = "sum",
    reduce: Number = 0,
    step_time: Number = 0,
    costs: Costs | None = None,
    num_steps: int = 1,
    joint_update: bool = True,
    split_backward: bool = False,
    recompute: str = "",
    max_ops: int = DEFAULT_MAX_OPS,
) -> Simulation:
    """Time a registered schedule, or one of your own, and report on it.

    `schedule` is a registered name, with `num_ranks` and `num_microbatches`, or a `Schedule`, which brings its own sizes.
    Times are numbers (a float counts as the decimal that Python prints), fractions (`"3/2"`), or lists with one value per
    rank; `backward` is the full backward (I + W) and `weight_grad` its W part, of one microbatch on one rank
    (`cost_per="op"`: of one op). With `layers`, the model's, which are spread over the stages, or a list with each stage's,
    single times are of one layer. `costs` gives all of it at once. Defaults are those of the command line.

        >>> simulate("1f1b", num_ranks=4, num_microbatches=4).metrics["bubble_over_elapsed"].value
        Ratio(numerator=6, denominator=14)

    Raises `ParameterError`, `LimitError`, `ScheduleError` or `DeadlockError`.
    """
    params = (num_ranks, num_microbatches, num_chunks, group, order)
    recipe = None
    if isinstance(schedule, Schedule):
        if (
            any(choice is not None for choice in params)
            or num_steps != 1
            or split_backward
            or recompute
            or not joint_update
        ):
            message = (
                "a Schedule brings its own order: sizes, group, order, steps and transforms are for registered names"
            )
            raise ParameterError(message)
        splits = bool(schedule.kinds() & {OpKind.I, OpKind.W}) or bool(schedule.pairs)
    elif num_ranks is None or num_microbatches is None:
        message = (
            f"simulate({schedule!r}) needs num_ranks and num_microbatches, for example "
            'simulate("1f1b", num_ranks=4, num_microbatches=8)'
        )
        raise ParameterError(message)
    else:
        sizes = Params(num_ranks, num_microbatches, num_chunks, group, order, num_steps)
        recipe = Recipe(schedule, sizes, split_backward, recompute, joint_update, max_ops)
        splits = recipe.splits
    if costs is None:
        costs = with_defaults(
            forward=_values(forward, "forward", cost_per),
            backward=_values(backward, "backward", cost_per),
            weight_grad=_values(weight_grad, "weight_grad", cost_per),
            splits=splits,
            per=cost_per,
        )._replace(
            comm=_numbers(comm, "comm"),
            link=link,
            overlap=overlap if isinstance(overlap, str) else Fraction(overlap),
            reduce=_exact(reduce, "reduce"),
            step_time=_exact(step_time, "step_time"),
        )
    elif (forward, backward, weight_grad, layers, comm, reduce, step_time) != (None, None, None, None, 0, 0, 0):
        message = "costs says how long everything takes; leave the times and layers out"
        raise ParameterError(message)
    if layers is not None:
        if cost_per == "op":
            message = 'layers make times those of one layer, cost_per="op" those of one op; leave one of the two out'
            raise ParameterError(message)
        num_stages = (schedule if recipe is None else make_schedule(recipe)).num_stages  # type: ignore[union-attr]
        given = (layers,) if isinstance(layers, int) else tuple(layers)
        costs = with_layers(costs, layers_of(given, num_stages))
    if recipe is None:
        return Simulation(simulate_schedule(schedule, costs))  # type: ignore[arg-type]
    return Simulation(time_schedule(recipe, costs))


def _values(given: Number | Sequence[Number] | None, what: str, per: str) -> Values | None:
    return None if given is None else Values(_numbers(given, what), per)


def _numbers(given: Number | Sequence[Number], what: str) -> tuple[Fraction, ...]:
    if isinstance(given, (int, float, str, Fraction)):
        return (_exact(given, what),)
    return tuple(_exact(number, what) for number in given)


def _exact(given: Number, what: str) -> Fraction:
    return given if isinstance(given, Fraction) else parse_rational(str(given), what)
