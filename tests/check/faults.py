"""Shorthand of the checker's tests: schedules as text, findings as pairs."""

from __future__ import annotations

from pptrace.check.checker import CheckOptions, check
from pptrace.formats import torch_csv


def listing(text):
    """The listing of a schedule file, lines indented or not."""
    return torch_csv.read("\n".join(line.strip() for line in text.strip().splitlines()).encode(), keep_unknown=True)


def report(source, **options):
    return check(listing(source) if isinstance(source, str) else source, CheckOptions(**options))


def told(source, **options):
    """(code, sentence) of every finding."""
    return [(finding.code, finding.sentence) for finding in report(source, **options).findings]


def codes(source, **options):
    return [finding.code for finding in report(source, **options).findings]


def only(source, **options):
    """The one finding."""
    (finding,) = report(source, **options).findings
    return finding
