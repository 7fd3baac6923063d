"""What a finding is, and what a check answers. It finds nothing; the kinds of finding are in `kinds`."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pptrace.check.kinds import ERROR, KINDS, SEVERITIES, WARNING

if TYPE_CHECKING:
    from collections.abc import Iterable


class Place(NamedTuple):
    """Where: a rank, the position in its list (counted from 0), and the 1-based line and column of a file (0: none)."""

    rank: int | None = None
    position: int | None = None
    line: int = 0
    column: int = 0

    def __str__(self) -> str:
        parts = []
        if self.line:
            parts.append(f"line {self.line}" + (f", column {self.column}" if self.column else ""))
        if self.rank is not None:
            parts.append(f"rank {self.rank}" + ("" if self.position is None else f", position {self.position}"))
        return "; ".join(parts)


NOWHERE = Place()


class Finding(NamedTuple):
    """One thing that is wrong, or could be better.

    `code` is a key of `KINDS` and stays the same from version to version; `ops` are the ops that it is about, as text;
    `waits` are, for a deadlock, the waits that close on each other, and `next_ops` the op that each rank is stuck at.
    """

    code: str
    place: Place
    sentence: str
    ops: tuple[str, ...] = ()
    remedy: str = ""
    waits: tuple[str, ...] = ()
    next_ops: tuple[tuple[int, str], ...] = ()

    @property
    def severity(self) -> str:
        return KINDS[self.code].severity


class Verdict(NamedTuple):
    """Whether the schedule runs to its end, and under which assumptions that is said; never more than that.

    `runs` is None where faults in the schedule leave nothing to run.
    """

    runs: bool | None
    sentence: str
    assumptions: tuple[str, ...]


class CheckReport(NamedTuple):
    """All findings, the worst first, the verdict on progress, the sizes that the ops themselves tell, and, of a file, which
    registered order it is or is nearest to (with its faults put right; empty where that was not looked at)."""

    findings: tuple[Finding, ...]
    verdict: Verdict
    sizes: str = ""
    order: str = ""

    def count(self, severity: str) -> int:
        return sum(finding.severity == severity for finding in self.findings)

    def failed(self, *, strict: bool = False) -> bool:
        """Whether the answer is bad: an error, or with `strict` a warning."""
        return bool(self.count(ERROR) or (strict and self.count(WARNING)))


def ordered(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Errors, then warnings, then advice; otherwise in the order in which they were found."""
    return tuple(sorted(findings, key=lambda finding: SEVERITIES.index(finding.severity)))


def some_of(words: Iterable[str], most: int = 6) -> str:
    """`a, b, c`, or the first of them `and 12 more`."""
    listed = list(words)
    if len(listed) <= most:
        return ", ".join(listed)
    return ", ".join(listed[: most - 1]) + f" and {len(listed) - most + 1} more"
