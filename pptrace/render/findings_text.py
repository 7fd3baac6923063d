"""Findings as text: for people, and as annotations of GitHub Actions. Returns text, prints nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pptrace.check.kinds import ADVICE, ERROR, KINDS, SEVERITIES, WARNING
from pptrace.printable import printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pptrace.check.findings import CheckReport, Finding

_INDENT = " " * 9
_GITHUB = {ERROR: "error", WARNING: "warning", ADVICE: "notice"}


def findings_text(report: CheckReport, label: str, notes: Sequence[str] = ()) -> str:
    """The findings, one paragraph each, then the verdict with its assumptions and the count. `label` is safe to print."""
    said = [*([report.order] if report.order else []), *map(printable, notes)]
    lines = [f"{label}: {report.sizes}", *(f"{_INDENT}{sentence}" for sentence in said), ""]
    for finding in report.findings:
        lines += [*_paragraph(finding), ""]
    lines.append(f"verdict: {report.verdict.sentence}")
    lines += [f"{_INDENT}{assumption}" for assumption in report.verdict.assumptions]
    lines.append(counts_text(report))
    return "\n".join(lines) + "\n"


def counts_text(report: CheckReport) -> str:
    """`1 error, no warnings, 2 pieces of advice`."""
    nouns = {
        ERROR: ("error", "errors"),
        WARNING: ("warning", "warnings"),
        ADVICE: ("piece of advice", "pieces of advice"),
    }
    words = []
    for severity in SEVERITIES:
        count = report.count(severity)
        one, many = nouns[severity]
        words.append(f"{count or 'no'} {one if count == 1 else many}")
    return ", ".join(words)


def _paragraph(finding: Finding) -> list[str]:
    place = str(finding.place)
    lines = [f"{finding.severity:<8} {finding.code}" + (f"   {place}" if place else "")]
    lines.append(f"{_INDENT}{printable(finding.sentence)}")
    lines += [f"{_INDENT}  {printable(wait)}" for wait in finding.waits]
    if finding.next_ops:
        stops = ", ".join(f"rank {rank} at {printable(op)}" for rank, op in finding.next_ops)
        lines.append(f"{_INDENT}next op of every rank that is not finished: {stops}")
    if finding.remedy:
        lines.append(f"{_INDENT}-> {printable(finding.remedy)}")
    return lines


def github_annotations(report: CheckReport, path: str) -> str:
    """One workflow command a finding, with the file's line where it has one, and the verdict as a notice or an error."""
    lines = []
    for finding in report.findings:
        values = {"file": path, "line": str(finding.place.line or 1), "title": finding.code}
        if finding.place.column:
            values["col"] = str(finding.place.column)
        where = "" if finding.place.rank is None or finding.place.line else f"{finding.place}: "
        told = [where + finding.sentence, *finding.waits, *([f"-> {finding.remedy}"] if finding.remedy else [])]
        lines.append(_command(_GITHUB[finding.severity], values, "\n".join(told)))
    verdict = "\n".join([report.verdict.sentence, *report.verdict.assumptions])
    lines.append(_command("notice", {"file": path, "title": "verdict"}, verdict))
    return "\n".join(lines) + "\n"


def _command(name: str, values: dict[str, str], message: str) -> str:
    properties = ",".join(f"{key}={_escaped(value, ':,')}" for key, value in values.items())
    return f"::{name} {properties}::{_escaped(message)}"


def _escaped(text: str, more: str = "") -> str:
    """As workflow commands want it: percent, line ends, and in properties colon and comma; the rest made visible."""
    lines = [printable(line) for line in text.split("\n")]
    escaped = "\n".join(lines).replace("%", "%25").replace("\n", "%0A")
    for character in more:
        escaped = escaped.replace(character, f"%{ord(character):02X}")
    return escaped


def kinds_text(codes: Iterable[str] = KINDS) -> str:
    """The table of all kinds of finding, by group."""
    lines: list[str] = []
    group = ""
    groups = list(dict.fromkeys(kind.group for kind in KINDS.values()))
    for code in sorted(codes, key=lambda code: groups.index(KINDS[code].group)):
        kind = KINDS[code]
        if kind.group != group:
            lines += [*([""] if lines else []), kind.group]
            group = kind.group
        lines.append(f"  {code:<26} {kind.severity:<8} {kind.title}")
    return "\n".join(lines) + "\n"


def explanation_text(code: str) -> str:
    """What `check --explain CODE` prints."""
    kind = KINDS[code]
    return f"{code} ({kind.severity}, {kind.group}): {kind.title}\n\n{kind.explanation}\n"
