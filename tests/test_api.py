"""The library: simulate(), the public names, and a report that shows itself."""

from __future__ import annotations

import doctest
import subprocess
import sys
from fractions import Fraction

import pytest
from running_anywhere import command_output

import pptrace
from pptrace import Costs, Op, OpKind, ParameterError, Placement, Schedule, simulate


def test_simulate_gives_the_figures_of_the_command() -> None:
    report = simulate("1f1b", num_ranks=4, num_microbatches=4)
    assert report.metrics["elapsed"].value.numerator == 14
    assert report.metrics["bubble_over_elapsed"].value == (6, 14)
    assert [peak.held for peak in report.memory.peaks] == [4, 3, 2, 1]
    assert str(report) == command_output("show", "1f1b", "-P", "4", "-M", "4")


def test_costs_are_given_as_numbers_texts_or_lists() -> None:
    args = ("-f", "1,3/2", "-b", "2.5", "-w", "0.1", "-c", "1/3", "--reduce", "1", "--steps", "2")
    report = simulate(
        "1f1b",
        num_ranks=2,
        num_microbatches=3,
        forward=[1, "3/2"],
        backward=2.5,
        weight_grad=0.1,
        comm=Fraction(1, 3),
        reduce=1,
        num_steps=2,
    )
    assert str(report) == command_output("show", "1f1b", "-P", "2", "-M", "3", *args)


def test_layers_are_spread_over_the_stages() -> None:
    report = simulate("1f1b", num_ranks=4, num_microbatches=2, layers=30, forward=1, backward=2)
    assert str(report) == command_output("show", "1f1b", "-P", "4", "-M", "2", "--layers", "30", "-b", "2")
    own = Schedule.from_ops("mine", Placement.loop(1), 1, [[Op.parse("0F0"), Op.parse("0B0")]])
    assert simulate(own, layers=[3]).metrics["elapsed"].value.numerator == 6


def test_choices_are_those_of_the_command() -> None:
    report = simulate("gpipe", num_ranks=2, num_microbatches=3, order="lifo", recompute="full", split_backward=True)
    args = ("--order", "lifo", "--recompute", "full", "--split-backward")
    assert str(report) == command_output("show", "gpipe", "-P", "2", "-M", "3", *args)


def test_a_schedule_of_ones_own() -> None:
    order = [Op.parse(text) for text in ("0F0", "0F1", "0B1", "0B0")]
    report = simulate(Schedule.from_ops("mine", Placement.loop(1), 2, [order]), backward=2)
    assert report.metrics["elapsed"].value.numerator == 6
    assert [str(span.op) for span in report.timeline.spans(0)] == ["0F0", "0F1", "0B1", "0B0"]


def test_a_notebook_shows_a_figure_and_text_where_there_is_too_much_of_it() -> None:
    figure = simulate("zb-h1", num_ranks=2, num_microbatches=2)._repr_html_()
    assert figure.startswith("<svg ")
    assert "<script" not in figure
    assert simulate("1f1b", num_ranks=32, num_microbatches=80)._repr_html_().startswith("<pre>1f1b (flush) ")


def test_what_cannot_be_is_a_parameter_error() -> None:
    with pytest.raises(ParameterError, match="needs num_ranks and num_microbatches, for example"):
        simulate("1f1b")
    with pytest.raises(ParameterError, match="did you mean 1f1b"):
        simulate("1fb1", num_ranks=1, num_microbatches=1)
    sizes = {"num_ranks": 1, "num_microbatches": 1}
    for choice, wanted in (
        ({"forward": float("nan")}, r"forward: 'nan' is not a number"),
        ({"forward": []}, r"-f \(forward\) has 0 values for 1 rank"),
        ({"comm": []}, r"-c \(comm\) has 0 values"),
        ({"cost_per": "layer"}, "forward: costs are per rank, op or stage, got 'layer'"),
        ({"link": "wire"}, "--link must be latency, serial or blocking, got 'wire'"),
        ({"layers": 3, "cost_per": "op"}, "leave one of the two out"),
        ({"recompute": "late"}, "recompute must be full or early, or empty, got 'late'"),
        ({"costs": Costs(), "backward": 2}, "costs says how long everything takes; leave the times and layers out"),
    ):
        with pytest.raises(ParameterError, match=wanted):
            simulate("1f1b", **sizes, **choice)
    own = Schedule.from_ops("mine", Placement.loop(1), 1, [[Op.parse("0F0"), Op.parse("0B0")]])
    for choice in ({"num_ranks": 1}, {"num_steps": 2}, {"split_backward": True}):
        with pytest.raises(ParameterError, match="a Schedule brings its own order"):
            simulate(own, **choice)


def test_every_public_name_is_there_and_listed() -> None:
    for name in pptrace.__all__:
        assert getattr(pptrace, name) is not None
    assert dir(pptrace) == sorted(pptrace.__all__)
    assert pptrace.OpKind is OpKind
    with pytest.raises(AttributeError, match="has no attribute 'Simulator'"):
        _ = pptrace.Simulator


def test_importing_the_package_imports_nothing_else() -> None:
    code = "import sys, pptrace; print(sorted(name for name in sys.modules if name.startswith('pptrace')))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "['pptrace']\n"


def test_the_example_in_the_docstring_is_true() -> None:
    import pptrace.api

    found = doctest.testmod(pptrace.api, extraglobs={"simulate": simulate})
    assert (found.failed, found.attempted) == (0, 1)
