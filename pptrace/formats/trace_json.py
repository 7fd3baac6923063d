"""Trace JSON, `pptrace.trace/1`: a report to one JSON document, an event a line, and back to a timeline."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

import msgspec

from pptrace.formats import trace_sections
from pptrace.formats.trace_structs import Header, Trace

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pptrace.analysis.report import Report
    from pptrace.formats import Document
    from pptrace.proof.prove import Proof

_LONG = {"lifetimes", "metrics", "closed_forms"}
_BEFORE_EVENTS = (
    "schema",
    "schedule",
    "costs",
    "ticks_per_unit",
    "unit",
    "measured",
    "offset",
    "headline",
    "assumptions",
)


def read(data: bytes, *, source: str = "trace", keep_overlaps: bool = False) -> Document:
    """The timeline that a trace holds. Lifetimes and metrics that are stored with it are computed again; where one differs,
    `findings` says so. `keep_overlaps`: two ops of a rank at once are left for the checker to name. Raises `FormatError`
    that begins with the place (`$.events[3].end: ...`)."""
    from pptrace.formats import json_decoding, trace_reading  # noqa: PLC0415  (writing needs none of it)

    trace = json_decoding.decoded(data, Trace, source)
    return trace_reading.document(trace, source, keep_overlaps=keep_overlaps)


def write(report: Report, proof: Proof | None = None) -> bytes:
    """The whole document: every top-level field on a line of its own, every event too."""
    encoder = msgspec.json.Encoder()
    names = trace_sections.ids(report.schedule)
    header = trace_sections.header(report, names, proof)
    fields = {name: value for name, value in _fields(header) if value is not msgspec.UNSET}
    first = [name for name in _BEFORE_EVENTS if name in fields]
    parts: list[bytes] = []
    for name in chain(first, ["events"], (name for name in fields if name not in first)):
        value = trace_sections.events_of(report, names) if name == "events" else fields[name]
        long = name == "events" or name in _LONG
        parts.append(b'"%s":%s' % (name.encode(), _lines(encoder, value) if long else encoder.encode(value)))
    return b"{" + b",\n".join(parts) + b"}\n"


def _fields(header: Header) -> Iterator[tuple[str, object]]:
    return ((name, getattr(header, name)) for name in header.__struct_fields__)


def _lines(encoder: msgspec.json.Encoder, items: object) -> bytes:
    """A JSON list, an item a line. Line ends inside texts are escaped, so that those found are between items."""
    if not items:
        return b"[]"
    return b"[\n" + encoder.encode_lines(items).rstrip(b"\n").replace(b"\n", b",\n") + b"\n]"  # type: ignore[arg-type]
