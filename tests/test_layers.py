"""Layers: how they are spread over stages, and what one layer's costs make of a stage."""

from __future__ import annotations

import pytest

from pptrace.costs import Costs, Sizes, values
from pptrace.errors import ParameterError
from pptrace.layers import layers_of, spread, with_layers


def test_layers_are_spread_evenly_the_first_stages_taking_one_more() -> None:
    assert spread(30, 4) == (8, 8, 7, 7)
    assert spread(40, 16) == (3,) * 8 + (2,) * 8
    assert spread(8, 4) == (2, 2, 2, 2)
    assert spread(5, 5) == (1, 1, 1, 1, 1)


@pytest.mark.parametrize("num_stages", range(1, 40))
def test_no_layer_is_lost_and_no_two_stages_differ_by_more_than_one(num_stages: int) -> None:
    for num_layers in range(num_stages, 100):
        found = spread(num_layers, num_stages)
        assert (len(found), sum(found)) == (num_stages, num_layers)
        assert max(found) - min(found) <= 1
        assert list(found) == sorted(found, reverse=True)


def test_a_list_says_where_the_layers_are() -> None:
    assert layers_of((5, 6, 5), 3) == (5, 6, 5)
    assert layers_of((30,), 4) == (8, 8, 7, 7)
    assert layers_of((30,), 1) == (30,)


@pytest.mark.parametrize(
    ("given", "num_stages", "wanted"),
    [
        ((3,), 4, "--layers 3: too few for 4 stages, each needs one; lower -P or -v, or raise --layers"),
        ((8, 8, 7), 4, "--layers has 3 numbers for 4 stages; give the total, or one number per stage"),
        ((8, 8), 1, "--layers has 2 numbers for 1 stage; give the total, or one number per stage"),
        ((8, 0), 2, "--layers: every stage needs a layer at least, got 0"),
    ],
)
def test_layers_that_do_not_fit(given: tuple[int, ...], num_stages: int, wanted: str) -> None:
    with pytest.raises(ParameterError) as refused:
        layers_of(given, num_stages)
    assert str(refused.value) == wanted


def test_single_numbers_are_of_one_layer_and_lists_stand() -> None:
    costs = Costs(values(1), values("5/2"), values(3, 4), sizes=Sizes(activation=values(10), boundary=values(7)))
    found = with_layers(costs, (2, 3))
    assert found.forward == values(2, 3, per="stage")
    assert found.backward == values(5, "15/2", per="stage")
    assert found.weight_grad == values(3, 4)
    assert found.sizes == Sizes(activation=values(20, 30, per="stage"), boundary=values(7))
    assert found.layers == (2, 3)


def test_what_is_of_stages_already_is_not_counted_twice() -> None:
    once = with_layers(Costs(values(2)), (30,))
    assert once.forward == values(60, per="stage")
    assert with_layers(once, (30,)) == once
