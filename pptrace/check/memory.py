"""Bytes held against a limit. The bytes are analysis' business; here they are compared."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from pptrace.check.findings import Finding, Place
from pptrace.errors import ParameterError
from pptrace.rationals import text_of

if TYPE_CHECKING:
    from pptrace.analysis.report import Report


def memory_findings(report: Report, limit: int) -> list[Finding]:
    """A finding for every rank whose peak passes `limit` bytes. Raises `ParameterError` where no size is known."""
    held = report.bytes
    if held is None:
        message = "--memory-limit needs sizes; give --activation-bytes, --weight-bytes, ... or a costs file with bytes"
        raise ParameterError(message)
    findings = []
    for peak in held.ranks:
        if peak.held > limit:
            parts = ", ".join(f"{name} {text_of(size)}" for name, size in peak.parts.items() if size)
            at = text_of(Fraction(peak.at, report.timeline.ticks_per_unit))
            sentence = f"rank {peak.rank} holds {text_of(peak.held)} bytes at t={at}, the limit is {limit}: {parts}"
            left_out = f" (not counted: {', '.join(held.left_out)})" if held.left_out else ""
            findings.append(Finding("memory-limit", Place(peak.rank), sentence + left_out, (), "see `pptrace compare`"))
    return findings
