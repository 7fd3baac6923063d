"""From cost options to costs: what was given on the command line, over what the costs file says, over the defaults."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from pptrace.cli.options import COST_FIELDS, SIZE_OPTIONS, ScheduleOptions, parse_count
from pptrace.costs import Costs, Sizes, Values
from pptrace.errors import ParameterError
from pptrace.layers import layers_of, with_layers
from pptrace.printable import printable
from pptrace.rationals import parse_bytes, parse_rational
from pptrace.recipes import with_defaults

if TYPE_CHECKING:
    from pptrace.formats.costs_toml import CostsFile

MAX_VALUES = 100_000


def costs_of(
    options: ScheduleOptions,
    *,
    splits: bool,
    file: CostsFile | None,
    base: Costs | None = None,
    num_stages: int | None = None,
) -> Costs:
    """The costs that the options mean. `base` is what they are laid over (the costs of a trace that is timed again);
    without it, the defaults. `num_stages` is needed where layers are given. Raises `ParameterError`."""
    per = options.cost_per or "rank"
    layers = _layers(options, file, base, num_stages)
    forward = _values(options.forward, "forward", per) or (file and file.forward)
    backward = _values(options.backward, "backward", per) or (file and file.backward)
    weight_grad = _values(options.weight_grad, "weight_grad", per) or (file and file.weight_grad)
    if base is None:
        costs = with_defaults(forward=forward, backward=backward, weight_grad=weight_grad, splits=splits, per=per)
    else:
        costs = base._replace(
            forward=forward or base.forward,
            backward=backward or base.backward,
            weight_grad=weight_grad or base.weight_grad,
        )
    if file is not None:
        costs = costs._replace(
            comm=file.comm or costs.comm,
            unit=file.unit or costs.unit,
            microbatch_scale=file.microbatch_scale or costs.microbatch_scale,
            sizes=file.sizes or costs.sizes,
            source=printable(options.costs or "", 200),
        )
    changes: dict[str, object] = {}
    if options.comm is not None:
        changes["comm"] = numbers(options.comm, "-c (comm)")
    for field in ("reduce", "step_time"):
        text = getattr(options, field)
        if text is not None:
            changes[field] = parse_rational(text, COST_FIELDS[field])
    if options.link is not None:
        changes["link"] = options.link
    if options.overlap is not None:
        words = ("sum", "max", "split")
        changes["overlap"] = options.overlap if options.overlap in words else _overlap(options.overlap)
    costs = costs._replace(**changes, sizes=sizes_of(options, costs.sizes))  # type: ignore[arg-type]
    return with_layers(costs, layers) if layers else costs


def has_layers(options: ScheduleOptions, file: CostsFile | None) -> bool:
    """Whether layers are given, so that `costs_of` needs to know the number of stages."""
    return options.layers is not None or bool(file and file.layers)


def _layers(
    options: ScheduleOptions, file: CostsFile | None, base: Costs | None, num_stages: int | None
) -> tuple[int, ...]:
    """The layers of every stage, as given or as the trace that is timed again has them; empty where nobody says."""
    given: tuple[int, ...] = file.layers if file is not None else ()
    if options.layers is not None:
        given = tuple(parse_count(piece, "--layers") for piece in _pieces(options.layers, "--layers"))
    known = base.layers if base is not None else ()
    if not given or num_stages is None:
        return known
    layers = layers_of(given, num_stages)
    if options.cost_per == "op":
        message = (
            "--layers makes -f -b -w the time of one layer, --cost-per op that of one op; leave one of the two out"
        )
        raise ParameterError(message)
    if known and known != layers:
        message = (
            f"--layers: the trace's times are those of stages of {','.join(map(str, known))[:80]} layers; leave it out"
        )
        raise ParameterError(message)
    return layers


def sizes_of(options: ScheduleOptions, base: Sizes | None) -> Sizes | None:
    """The sizes in bytes that the options mean, over those of the file; None where none are known."""
    per = options.cost_per or "rank"
    given = {
        part: Values(tuple(Fraction(parse_bytes(piece, flag)) for piece in _pieces(text, flag)), per)
        for field, (flag, part) in SIZE_OPTIONS.items()
        if (text := getattr(options, field)) is not None
    }
    return (base or Sizes())._replace(**given) if given else base


def numbers(text: str, what: str) -> tuple[Fraction, ...]:
    """`1` or `1,2,3/2`. Raises `ParameterError` that names `what`, and the place in a list."""
    pieces = _pieces(text, what)
    if len(pieces) == 1:
        return (parse_rational(pieces[0], what),)
    return tuple(parse_rational(piece, f"{what}, value {i}") for i, piece in enumerate(pieces, 1))


def _pieces(text: str, what: str) -> list[str]:
    if text.count(",") >= MAX_VALUES:
        message = f"{what}: a list of more than {MAX_VALUES:,} values"
        raise ParameterError(message)
    return text.split(",")


def _values(text: str | None, field: str, per: str) -> Values | None:
    return None if text is None else Values(numbers(text, f"{COST_FIELDS[field]} ({field})"), per)


def _overlap(text: str) -> Fraction:
    try:
        return parse_rational(text, "--overlap")
    except ParameterError:
        message = f"--overlap is sum, max, split or a time, got {printable(text, 40)!r}"
        raise ParameterError(message) from None
