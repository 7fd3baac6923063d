"""The JSON Schema of a trace, made from the structs that read and write it."""

from __future__ import annotations

from typing import Any

import msgspec

from pptrace.formats.trace_structs import Event, Header, Trace


def trace_schema(*, lines: bool = False) -> dict[str, Any]:
    """The JSON Schema (2020-12) of a trace document; with `lines`, of one line of JSON Lines: the header or an event."""
    shapes = [Header, Event] if lines else [Trace]
    found, parts = msgspec.json.schema_components(shapes, ref_template="#/$defs/{name}")
    title = "pptrace.trace/1, one line of JSON Lines" if lines else "pptrace.trace/1"
    body = {"anyOf": list(found)} if lines else found[0]
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": title, **body, "$defs": parts}


def text(*, lines: bool = False) -> bytes:
    """The schema as indented JSON."""
    return msgspec.json.format(msgspec.json.encode(trace_schema(lines=lines)), indent=2) + b"\n"
