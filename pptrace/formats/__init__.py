"""Formats: bytes in, nouns out, and the other way round. This file owns the table of formats and how one is chosen.

A format is a module of this package, imported when it is used, with one or both of

    read(data: bytes, *, source: str) -> Document    or a Listing; raises FormatError that begins with the place
    write(report: Report) -> bytes                   a finished file (`write(listing)` for formats of orders)

Readers may take more keyword arguments of their own (what a letter means, say). To add a format, write the module and add a
line to `FORMATS`; where content has to tell formats of one suffix apart, add a rule to `_by_content`.
"""

from __future__ import annotations

import re
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

from pptrace.errors import FormatError, ParameterError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pptrace.analysis.report import Report
    from pptrace.check.state import StoredLifetime
    from pptrace.listing import Listing
    from pptrace.model import Schedule
    from pptrace.timeline import Timeline


class Document(NamedTuple):
    """What a file holds, as far as it goes.

    `schedule` is the order (None where what is written is not one that can be built, `listing` then says what is written);
    `timeline` is there where the file has times. `notes` are sentences for the header: what was decided or left out.
    `findings` say what does not agree inside the file; `lifetimes` are the saved activations of a trace that are stored
    otherwise than its events give them; `report` is what was computed to find that out, under no notes.
    """

    schedule: Schedule | None
    timeline: Timeline | None = None
    listing: Listing | None = None
    notes: tuple[str, ...] = ()
    findings: tuple[str, ...] = ()
    lifetimes: tuple[StoredLifetime, ...] = ()
    report: Report | None = None


class Format(NamedTuple):
    """One line of the table: the module (of this package, or with its room: `render.svg`), what it can do, the suffixes
    that choose it."""

    module: str
    summary: str
    suffixes: tuple[str, ...] = ()
    reads: bool = True
    writes: bool = True
    has_letters: bool = False
    """Whether ops are named by letters whose meaning can be asked for (`letter`, --letter-b)."""
    keeps: str = ""
    """The reader's argument with which it keeps what is wrong, for the checker to name."""


FORMATS: dict[str, Format] = {
    "json": Format("trace_json", "pptrace trace, one JSON document", (".json",), keeps="keep_overlaps"),
    "jsonl": Format(
        "trace_jsonl", "pptrace trace, a header line and an event a line", (".jsonl", ".ndjson"), keeps="keep_overlaps"
    ),
    "chrome": Format(
        "chrome_trace",
        "Chrome trace events, for Perfetto; profiler traces, one file or one a rank",
        (".perfetto.json", ".chrome.json"),
        has_letters=True,
    ),
    "torch-compute": Format(
        "torch_csv", "PyTorch schedule CSV, compute ops", (".csv",), has_letters=True, keeps="keep_unknown"
    ),
    "torch-comms": Format(
        "torch_csv", "PyTorch schedule CSV with messages and sharding (--recv)", has_letters=True, keeps="keep_unknown"
    ),
    "grid": Format(
        "text_grid",
        "text: the grid that show prints, and loose tables of ops",
        (".txt",),
        writes=False,
        has_letters=True,
    ),
    "svg": Format("render.svg", "a figure, self-contained, light and dark", (".svg",), reads=False),
    "html": Format("render.html", "a page with figure and tables, to be read offline", (".html", ".htm"), reads=False),
    "tikz": Format("render.tikz", "a figure for LaTeX, alone or by \\input", (".tex", ".tikz"), reads=False),
    "md": Format("render.markdown", "the report as Markdown", (".md", ".markdown"), reads=False),
}
"""Name to format, in the order of listings; the first with a suffix is what that suffix means on output (the longer of two
suffixes that fit: `x.perfetto.json` is no trace of pptrace)."""


def load(name: str) -> Any:
    """The module of a format. Raises `ParameterError` with the nearest name for one that does not exist."""
    if name not in FORMATS:
        from pptrace.schedules.registry import nearest  # noqa: PLC0415

        near = by_suffix(f".{name}") or nearest(name, list(FORMATS))
        known = f"did you mean {near}?" if near else f"known are {', '.join(FORMATS)}"
        message = f"no format is called {name[:40]!r}; {known}"
        raise ParameterError(message)
    module = FORMATS[name].module
    return import_module(f"pptrace.{module}" if "." in module else f"pptrace.formats.{module}")


def by_suffix(path: str, *, writing: bool = False) -> str | None:
    """The format that a file's suffix stands for, or None."""
    lowered = path.lower()
    fitting = [
        (len(suffix), name)
        for name, format_ in FORMATS.items()
        if (format_.writes if writing else format_.reads)
        for suffix in format_.suffixes
        if lowered.endswith(suffix)
    ]
    return max(fitting, key=lambda found: found[0], default=(0, None))[1]


def guess(data: bytes, path: str) -> str:
    """The format of an input, by its content, or by its suffix where the content does not tell. Raises `FormatError`
    where neither does."""
    if data[:4096].lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"<"):
        message = f"{path}: is a figure or a page (svg, html), which pptrace writes and does not read; read what it was made of"
        raise FormatError(message)
    found = _by_content(data) or by_suffix(path)
    if found is None and data.lstrip(b"\xef\xbb\xbf \t\r\n").startswith((b"{", b"[")):
        found = "json"  # whose reader says what is missing
    if found is None:
        readable = ", ".join(key for key, format_ in FORMATS.items() if format_.reads)
        message = f"{path}: neither suffix nor content tells the format; say --from FORMAT, one of {readable}"
        raise FormatError(message)
    return found


def _by_content(data: bytes) -> str | None:
    head = data[:65536].lstrip(b"\xef\xbb\xbf \t\r\n")
    if head.startswith(b"{") and b'"pptrace.trace/' in head[:200] and _is_lines(data):
        return "jsonl"
    if head.startswith((b"{", b"[")):
        return "json" if b'"pptrace.trace/' in head else "chrome" if _is_chrome(data, head) else None
    return _order_by_content(head)


def _is_lines(data: bytes) -> bool:
    """Whether the first line is a whole JSON object and more lines follow."""
    start = len(data) - len(data.lstrip(b"\xef\xbb\xbf \t\r\n")) if data[:1] != b"{" else 0
    end = data.find(b"\n", start)
    return end > 0 and data[start:end].rstrip().endswith(b"}") and bool(data[end:].strip())


def _is_chrome(data: bytes, head: bytes) -> bool:
    """Whether JSON is a list, of events, or an object that has them, anywhere: profilers write much before them."""
    return head.startswith(b"[") or b'"traceEvents"' in data


def _order_by_content(head: bytes) -> str | None:
    """PyTorch's cells (`2F0`) between commas, or ops in a grid."""
    if re.search(rb"^[ \t]*time[ \t]*\|", head, re.MULTILINE):
        return "grid"
    if b"|" not in head and re.search(
        rb'(?:^|,)[ \t"]*\(?\d+(?:[FBIW]|BW|[A-Z]+_[FB]|[A-Z]*SHARD)\d*[;,]', head, re.MULTILINE
    ):
        return "torch-compute"
    return "grid" if re.search(rb"(?<![A-Za-z0-9_;(])[FBIW]\d+(?![A-Za-z0-9_])", head) else None


def read(
    data: bytes, name: str, format_name: str | None = None, *, keep_faults: bool = False, **options: Any
) -> Document:
    """Read a file's bytes in the named format, or in the one that its content or suffix tells. Errors begin with `name`.
    `keep_faults`: cells that are no ops and ops that overlap stay as they are, for the checker to name."""
    if not data.strip(b"\xef\xbb\xbf \t\r\n"):
        message = f"{name}: the input is empty"
        raise FormatError(message)
    chosen = format_name or guess(data, name)
    module = load(chosen)
    if not FORMATS[chosen].reads:
        readable = ", ".join(key for key, format_ in FORMATS.items() if format_.reads)
        message = f"--from {chosen}: pptrace writes this format but does not read it; it reads {readable}"
        raise ParameterError(message)
    if "letter" in options and not FORMATS[chosen].has_letters:
        message = f"--letter-b is for schedule files and text grids; {name} is {chosen}, where B is the full backward"
        raise ParameterError(message)
    if keep_faults and FORMATS[chosen].keeps:
        options[FORMATS[chosen].keeps] = True
    try:
        found: Document | Listing = module.read(data, source=name, **options)
    except FormatError as error:
        if str(error).startswith(name):
            raise
        message = f"{name}: {error}"
        raise FormatError(message) from None
    return found if isinstance(found, Document) else Document(None, listing=found, notes=found.notes)


def read_files(files: Iterable[tuple[str, bytes]], format_name: str | None = None, **options: Any) -> Document:
    """Read the files of one run, (name, bytes), of which each rank wrote one. Only Chrome traces are written so."""

    def checked() -> Iterator[tuple[str, bytes]]:
        for name, data in files:
            if not data.strip(b"\xef\xbb\xbf \t\r\n"):
                message = f"{name}: the input is empty"
                raise FormatError(message)
            chosen = format_name or guess(data, name)
            if chosen != "chrome":
                message = f"{name}: is {chosen}; several files are one run where they are profiler traces of its ranks"
                raise FormatError(message)
            yield name, data

    found: Document = load("chrome").read_files(checked(), **options)
    return found
