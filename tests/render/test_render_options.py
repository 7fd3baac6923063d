"""Options as a person writes them, and what is said where they cannot be used."""

from __future__ import annotations

from fractions import Fraction

import pytest

from pptrace.errors import ParameterError
from pptrace.render.options import SECTIONS, parse_ranks, parse_sections, parse_window


@pytest.mark.parametrize(
    ("text", "window"),
    [
        ("4:10", (4, 10)),
        ("3/2:2.5", (Fraction(3, 2), Fraction(5, 2))),
        ("4:", (4, None)),
        (":10", (None, 10)),
        (":", (None, None)),
    ],
)
def test_windows(text, window):
    assert parse_window(text) == window


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("4", "--window is T0:T1, for example 4:10, got '4'"),
        ("10:4", "--window 10:4 is empty: T0 must be less than T1"),
        ("4:4", "is empty"),
        ("a:4", "--window: 'a' is not a number"),
        ("\x1b[31m", r"--window is T0:T1, for example 4:10, got '\\x1b\[31m'"),
    ],
)
def test_windows_that_are_none(text, message):
    with pytest.raises(ParameterError, match=message.replace("'\\\\x1b", r"'\\+x1b")):
        parse_window(text)


@pytest.mark.parametrize(
    ("text", "ranks"), [("0", (0,)), ("0,3-5", (0, 3, 4, 5)), ("5, 0-1,0", (0, 1, 5)), ("2-2", (2,))]
)
def test_ranks(text, ranks):
    assert parse_ranks(text, 8) == ranks


@pytest.mark.parametrize("text", ["", "a", "-1", "1-", "5-3", "8", "0-8", "0;1", "1" * 40, "١"])
def test_ranks_that_are_none(text):
    with pytest.raises(ParameterError, match="--only-ranks"):
        parse_ranks(text, 8)


def test_sections_come_in_the_order_of_the_report():
    assert parse_sections(["metrics,grid", "header"]) == ("header", "grid", "metrics")
    assert parse_sections([]) == ()


def test_an_unknown_section_is_answered_with_all_of_them():
    with pytest.raises(ParameterError, match="--section is one of " + ", ".join(SECTIONS)):
        parse_sections(["grids"])
