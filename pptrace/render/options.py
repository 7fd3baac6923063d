"""What a reader may ask of a rendered report. It owns the options and their text forms; it knows nothing of terminals."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pptrace.errors import ParameterError
from pptrace.printable import printable
from pptrace.rationals import parse_rational

if TYPE_CHECKING:
    from collections.abc import Iterable
    from fractions import Fraction

SECTIONS = ("header", "legend", "grid", "held", "lifetimes", "phases", "metrics", "bytes", "versions", "idle")
"""The parts of a report, in the order in which they are printed."""

MANY_LIFETIMES = 128
"""More lifetimes than this are printed only where the section is asked for by name."""


class RenderOptions(NamedTuple):
    """`width` is the number of characters of a line, None: never fold. `window` is (from, to) in units of time, either None
    for an open end. `only_ranks` counts from 0. `sections` empty: all of them. `names` is "" or "textbook"
    (stages and microbatches counted from 1, as with `one_based`)."""

    width: int | None = None
    window: tuple[Fraction | None, Fraction | None] | None = None
    only_ranks: tuple[int, ...] | None = None
    compact: bool = False
    one_based: bool = False
    sections: tuple[str, ...] = ()
    names: str = ""

    @property
    def first_number(self) -> int:
        """The number of the first stage and of the first microbatch."""
        return 1 if self.one_based or self.names == "textbook" else 0


def parse_window(text: str) -> tuple[Fraction | None, Fraction | None]:
    """`T0:T1`, `T0:` or `:T1` in units of time. Raises `ParameterError`."""
    first, colon, last = text.partition(":")
    if not colon:
        message = f"--window is T0:T1, for example 4:10, got {printable(text, 40)!r}"
        raise ParameterError(message)
    start = parse_rational(first, "--window") if first.strip() else None
    end = parse_rational(last, "--window") if last.strip() else None
    if start is not None and end is not None and start >= end:
        message = f"--window {printable(text, 40)} is empty: T0 must be less than T1"
        raise ParameterError(message)
    return start, end


def parse_ranks(text: str, num_ranks: int) -> tuple[int, ...]:
    """`0,3-5` as ascending ranks. Raises `ParameterError` for anything but ranks of 0..P-1."""
    found: set[int] = set()
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        ends = (first, last) if dash else (first, first)
        if not all(end.isascii() and end.isdigit() and len(end) < 10 for end in ends):
            message = f"--only-ranks is a list of ranks, for example 0,3-5, got {printable(text, 40)!r}"
            raise ParameterError(message)
        low, high = int(ends[0]), int(ends[1])
        if low > high or high >= num_ranks:
            message = f"--only-ranks {printable(part.strip(), 40)}: ranks are 0..{num_ranks - 1}, the lower one first"
            raise ParameterError(message)
        found.update(range(low, high + 1))
    return tuple(sorted(found))


def parse_sections(names: Iterable[str]) -> tuple[str, ...]:
    """Section names, each one or several with commas between, in the order of the report. Raises `ParameterError`."""
    wanted = [name.strip() for text in names for name in text.split(",")]
    for name in wanted:
        if name not in SECTIONS:
            message = f"--section is one of {', '.join(SECTIONS)}; got {printable(name, 40)!r}"
            raise ParameterError(message)
    return tuple(name for name in SECTIONS if name in wanted)
