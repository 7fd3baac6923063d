"""Finding a schedule by name, refusing what it cannot be, and what every entry says of itself."""

from __future__ import annotations

import pytest

from pptrace.errors import LimitError, ParameterError
from pptrace.schedules.registry import Params, build, checked, entry, names, nearest


def refused(name: str, params: Params) -> str:
    with pytest.raises(ParameterError) as caught:
        build(name, params)
    return str(caught.value)


def test_the_first_names() -> None:
    assert names()[:4] == ["naive", "gpipe", "1f1b", "eager-1f1b"]


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("1F1B", "1f1b"),
        ("gpip", "gpipe"),
        ("g-pipe", "gpipe"),
        ("ifib", "1f1b"),
        ("eager", "eager-1f1b"),
        ("zbh1", "zb-h1"),
        ("ZBV", "zb-v"),
        ("interleave", "interleaved"),
        ("dualpipe_v", "dualpipev"),
    ],
)
def test_the_nearest_name(typed: str, meant: str) -> None:
    assert nearest(typed, names()) == meant


def test_an_unknown_name_is_answered_with_the_nearest() -> None:
    assert refused("gpip", Params(2, 2)) == ("no schedule is called 'gpip'; did you mean gpipe?")


def test_a_name_like_nothing_gets_no_guess() -> None:
    assert refused("qqqqqqqq", Params(2, 2)) == "no schedule is called 'qqqqqqqq'; `pptrace schedules` lists the names"


def test_a_hostile_name_is_cut_and_escaped() -> None:
    message = refused("\x1b[31m" + "x" * 10_000, Params(2, 2))
    assert "\x1b" not in message
    assert len(message) < 200


@pytest.mark.parametrize("name", names())
@pytest.mark.parametrize(
    ("params", "message"),
    [
        (Params(0, 4), "-P (ranks) must be at least 1, got 0"),
        (Params(4, 0), "-M (microbatches) must be at least 1, got 0"),
        (Params(-3, 4), "-P (ranks) must be at least 1, got -3"),
        (Params(4, -1), "-M (microbatches) must be at least 1, got -1"),
    ],
)
def test_sizes_start_at_one_everywhere(name: str, params: Params, message: str) -> None:
    assert refused(name, params) == message


@pytest.mark.parametrize("name", ["naive", "gpipe", "1f1b", "eager-1f1b"])
def test_options_that_a_schedule_does_not_take(name: str) -> None:
    assert (
        refused(name, Params(2, 2, num_chunks=2))
        == f"{name} takes no -v (chunks): it has 1 on every rank; leave it out"
    )
    assert refused(name, Params(2, 2, group=2)) == f"{name} takes no --group; leave it out"
    assert checked(entry(name), Params(2, 2, num_chunks=1)).num_chunks == 1


def test_the_order_of_gpipe() -> None:
    assert refused("gpipe", Params(2, 2, order="random")) == "--order is fifo or lifo, got 'random'"
    assert refused("1f1b", Params(2, 2, order="lifo")) == "1f1b takes no --order; leave it out"


def test_too_many_ops_are_refused_before_any_is_made() -> None:
    with pytest.raises(LimitError) as caught:
        build("1f1b", Params(10**9, 10**9))
    assert str(caught.value) == (
        "1f1b with P=1000000000 M=1000000000 has 2,000,000,000,000,000,000 ops, over the limit of 2,000,000; "
        "lower P or M, or raise --max-ops"
    )
    assert build("1f1b", Params(2, 5), max_ops=20).num_ops == 20
    with pytest.raises(LimitError):
        build("1f1b", Params(2, 5), max_ops=19)


@pytest.mark.parametrize("name", names())
def test_every_entry_says_what_it_is(name: str) -> None:
    found = entry(name)
    assert found.name == name
    for said in (found.summary, found.constraints, found.makespan, found.bubble, found.peak, found.source):
        assert said
        assert said == said.strip()
    assert found.build.__doc__
    assert name == "naive" or "Source:" in found.build.__doc__


@pytest.mark.parametrize("name", names())
def test_a_built_schedule_has_its_name(name: str) -> None:
    assert build(name, Params(2, 4)).name == name
