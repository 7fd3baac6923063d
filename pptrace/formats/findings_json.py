"""Findings as one JSON document, `pptrace.check/1`. Written, not read."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from pptrace.check.kinds import SEVERITIES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pptrace.check.findings import CheckReport, Finding

SCHEMA = "pptrace.check/1"


def write(report: CheckReport, source: str, notes: Sequence[str] = ()) -> bytes:
    """The document: source, sizes, the registered order that it is or is nearest to, verdict with its assumptions, counts,
    findings. A place that is not known is null."""
    document = {
        "schema": SCHEMA,
        "source": source,
        "sizes": report.sizes,
        "order": report.order or None,
        "notes": list(notes),
        "verdict": {
            "runs": report.verdict.runs,
            "sentence": report.verdict.sentence,
            "assumptions": list(report.verdict.assumptions),
        },
        "counts": {severity: report.count(severity) for severity in SEVERITIES},
        "findings": [_finding(finding) for finding in report.findings],
    }
    return msgspec.json.format(msgspec.json.encode(document), indent=2) + b"\n"


def _finding(finding: Finding) -> dict[str, object]:
    place = finding.place
    return {
        "code": finding.code,
        "severity": finding.severity,
        "rank": place.rank,
        "position": place.position,
        "line": place.line or None,
        "column": place.column or None,
        "sentence": finding.sentence,
        "ops": list(finding.ops),
        "remedy": finding.remedy,
        "waits": list(finding.waits),
        "next_ops": [{"rank": rank, "op": op} for rank, op in finding.next_ops],
    }
