"""Exact numbers from text, their limits, and back."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pptrace.errors import ParameterError
from pptrace.rationals import parse_bytes, parse_rational, text_of


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1", Fraction(1)),
        ("1.5", Fraction(3, 2)),
        ("3/2", Fraction(3, 2)),
        ("1.5/3", Fraction(1, 2)),
        (" 2 ", Fraction(2)),
        (".5", Fraction(1, 2)),
        ("2.", Fraction(2)),
        ("+1", Fraction(1)),
        ("-1/2", Fraction(-1, 2)),
        ("2e-3", Fraction(1, 500)),
        ("1E3", Fraction(1000)),
        ("1e+3", Fraction(1000)),
        ("0", Fraction(0)),
        ("1e30", Fraction(10**30)),
        ("9" * 30, Fraction(10**30 - 1)),
        ("0.1", Fraction(1, 10)),
    ],
)
def test_numbers(text: str, value: Fraction) -> None:
    assert parse_rational(text, "-f") == value


@pytest.mark.parametrize(
    "text",
    [
        "", "one", "1,5", "1.2.3", "--1", "1e", "e3", "1e1.5", "1e-", ".", "nan", "inf", "1_000", "0x10", "1 2", "1/", "/2",
        "1/-2", "1/1.5", "1//2", "¹", "٣", "1\x00", "1e2e3",
    ],
)  # fmt: skip
def test_what_is_not_a_number(text: str) -> None:
    with pytest.raises(ParameterError, match=r"^-f: .* is not a number; write 1, 1\.5 or 3/2$"):
        parse_rational(text, "-f")


@pytest.mark.parametrize(
    "text", ["9" * 31, "1e31", "1e-31", "1e999999999", "0." + "0" * 30 + "1", "1/" + "3" * 31, "1" * 1_000_000]
)
def test_too_long_is_refused_before_it_is_converted(text: str) -> None:
    with pytest.raises(
        ParameterError, match=r"is too long; a number has at most 30 digits and an exponent within \+-30$"
    ):
        parse_rational(text, "-f")


def test_dividing_by_zero() -> None:
    with pytest.raises(ParameterError, match="-f: '1/0' divides by zero"):
        parse_rational("1/0", "-f")


def test_messages_show_no_escape_sequences_and_stay_short() -> None:
    with pytest.raises(ParameterError) as caught:
        parse_rational("\x1b[2J" + "z" * 5000, "-f")
    assert "\x1b" not in str(caught.value)
    assert len(str(caught.value)) < 150


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (3, "3"),
        (Fraction(3, 2), "1.5"),
        (Fraction(-3, 2), "-1.5"),
        (Fraction(3, 7), "3/7"),
        (Fraction(1, 8), "0.125"),
        (Fraction(1, 10_000), "0.0001"),
        (Fraction(1, 100_000), "1/100000"),
        (Fraction(0), "0"),
        (Fraction(-1, 3), "-1/3"),
    ],
)
def test_shortest_exact_text(value: Fraction | int, text: str) -> None:
    assert text_of(value) == text


@given(st.fractions(max_denominator=10**12).filter(lambda value: abs(value) < 10**12))
def test_text_reads_back(value: Fraction) -> None:
    assert parse_rational(text_of(value), "-f") == value


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("4096", 4096),
        ("4096B", 4096),
        ("512KiB", 524_288),
        ("512 KiB", 524_288),
        ("1.5GiB", 1_610_612_736),
        ("2GB", 2_000_000_000),
        ("1mb", 1_000_000),
        ("1/2KB", 500),
        ("0", 0),
        ("1TiB", 2**40),
    ],
)
def test_sizes(text: str, size: int) -> None:
    assert parse_bytes(text, "--memory-limit") == size


@pytest.mark.parametrize("text", ["", "KiB", "1.5", "0.5B", "-1", "1/3KB", "1XB", "1KiBB", "B1"])
def test_what_is_not_a_size(text: str) -> None:
    with pytest.raises(ParameterError, match=r"^--memory-limit: "):
        parse_bytes(text, "--memory-limit")
