"""Layers: how a model's layers are spread over stages, and costs of one layer made costs of stages. What lasts how long is
costs.py's; that rule stays the only one, layers only fill in its lists."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pptrace.costs import Costs, Sizes, Values
from pptrace.errors import ParameterError

if TYPE_CHECKING:
    from collections.abc import Sequence

_PER_LAYER = ("activation", "after_input", "weights", "gradients", "optimizer")
"""Sizes that grow with the layers of a stage; the tensor at a stage boundary does not."""


def spread(num_layers: int, num_stages: int) -> tuple[int, ...]:
    """`num_layers` on the stages as evenly as it goes, the first ones taking one more: 30 on 4 are 8 8 7 7.

    Raises `ParameterError` where a stage would have none.
    """
    if num_layers < num_stages:
        message = (
            f"--layers {num_layers}: too few for {num_stages} stages, each needs one; lower -P or -v, or raise --layers"
        )
        raise ParameterError(message)
    each, more = divmod(num_layers, num_stages)
    return (each + 1,) * more + (each,) * (num_stages - more)


def layers_of(given: Sequence[int], num_stages: int) -> tuple[int, ...]:
    """The layers of every stage from one total, or from one number per stage. Raises `ParameterError`."""
    if len(given) == 1 and num_stages > 1:
        return spread(given[0], num_stages)
    if len(given) != num_stages:
        message = (
            f"--layers has {len(given)} numbers for {num_stages} stage{'s' if num_stages > 1 else ''}; give the total, or "
            "one number per stage"
        )
        raise ParameterError(message)
    if min(given) < 1:
        message = f"--layers: every stage needs a layer at least, got {min(given)}"
        raise ParameterError(message)
    return tuple(given)


def of_stages(values: Values, layers: Sequence[int]) -> Values:
    """A single number is of one layer: one value per stage is made of it. What is of stages already, or a list, stands."""
    if len(values.numbers) > 1 or values.per == "stage":
        return values
    return Values(tuple(values.numbers[0] * count for count in layers), "stage")


def sizes_of_stages(sizes: Sizes, layers: Sequence[int]) -> Sizes:
    """The same for sizes in bytes, the boundary tensor's aside."""
    given = {part: getattr(sizes, part) for part in _PER_LAYER}
    return sizes._replace(**{part: of_stages(size, layers) for part, size in given.items() if size is not None})


def with_layers(costs: Costs, layers: Sequence[int]) -> Costs:
    """`costs` whose single numbers are of one layer, as costs of stages that have so many `layers`."""
    return costs._replace(
        forward=of_stages(costs.forward, layers),
        backward=of_stages(costs.backward, layers),
        weight_grad=of_stages(costs.weight_grad, layers),
        sizes=sizes_of_stages(costs.sizes, layers) if costs.sizes else None,
        layers=tuple(layers),
    )
