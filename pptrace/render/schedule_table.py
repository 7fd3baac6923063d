"""The registered schedules as a Markdown table: what each needs, its closed forms and its source. `pptrace schedules -t md`
prints it, README holds it; every word of it is the registry's."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pptrace.schedules.registry import Entry

_SPECIAL = re.compile(r"([\\`*_|]|<(?=\w))")
HEADER = ("schedule", "what it is", "needs", "bubble", "peak on rank r", "source")


def schedule_table(entries: Iterable[Entry]) -> str:
    """A row per schedule, in the order given; formulas in code spans. Ends in a newline."""
    rows = [_row(found) for found in entries]
    lines = [HEADER, ("---",) * len(HEADER), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _row(found: Entry) -> tuple[str, ...]:
    return (
        _code(found.name),
        _plain(found.summary),
        _plain(found.constraints),
        _code(found.bubble),
        _code(found.peak),
        _plain(found.source),
    )


def _plain(text: str) -> str:
    """Words as Markdown that shows them; no more marks than a cell needs, for those who read the file as it is."""
    return _SPECIAL.sub(r"\\\1", text)


def _code(text: str) -> str:
    """A code span in a cell of a table, in which a bar would begin the next cell."""
    return "`" + text.replace("|", "\\|") + "`"
