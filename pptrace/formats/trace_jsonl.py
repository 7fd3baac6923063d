"""Trace JSON Lines: the same trace as trace_json's, as a header line (everything but the events) and then an event a line, for
tools that read a line at a time."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import msgspec

from pptrace.errors import FormatError
from pptrace.formats import trace_sections
from pptrace.formats.trace_structs import Event, Header, Trace

if TYPE_CHECKING:
    from pptrace.analysis.report import Report
    from pptrace.formats import Document
    from pptrace.proof.prove import Proof

_EVENT = re.compile(r"\$\.events\[(\d+)\]")


def read(data: bytes, *, source: str = "trace", keep_overlaps: bool = False) -> Document:
    """The timeline that the lines hold; `keep_overlaps` as in trace_json. Raises `FormatError` that begins with the line."""
    from pptrace.formats import trace_reading  # noqa: PLC0415  (writing needs none of it)
    from pptrace.formats.json_decoding import decoded  # noqa: PLC0415

    lines = [(number, line) for number, line in enumerate(data.split(b"\n"), 1) if line.strip()]
    if not lines:
        message = f"{source}: the input is empty"
        raise FormatError(message)
    number, first = lines[0]
    header = decoded(first, Header, source, line=number)
    events = [decoded(line, Event, source, line=number) for number, line in lines[1:]]
    fields = {name: getattr(header, name) for name in header.__struct_fields__}
    numbers = [number for number, _ in lines[1:]]
    try:
        found = trace_reading.document(Trace(events=events, **fields), source, keep_overlaps=keep_overlaps)
    except FormatError as error:
        raise FormatError(_with_lines(str(error), numbers)) from None
    return found._replace(findings=tuple(_with_lines(finding, numbers) for finding in found.findings))


def _with_lines(message: str, numbers: list[int]) -> str:
    """`$.events[3].end: ...` says `line 5: $.end: ...`."""
    return _EVENT.sub(lambda found: f"line {numbers[int(found[1])]}: $", message)


def write(report: Report, proof: Proof | None = None) -> bytes:
    """The header line and an event a line, each ended by a line feed."""
    encoder = msgspec.json.Encoder()
    names = trace_sections.ids(report.schedule)
    header = encoder.encode(trace_sections.header(report, names, proof))
    return header + b"\n" + encoder.encode_lines(trace_sections.events_of(report, names))
