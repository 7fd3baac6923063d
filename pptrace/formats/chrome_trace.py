"""Chrome trace events, for Perfetto and chrome://tracing: a report out, and files in, those of pptrace itself and those of
profilers, one of a run or one for each rank. This file owns the way in and out; the events are chrome_writing.py's, what a file
holds is chrome_own.py's or, where another program wrote it, profiler_trace.py's."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pptrace.errors import FormatError
from pptrace.formats.chrome_clock import Clock, microseconds_per_unit

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pptrace.analysis.report import Report
    from pptrace.formats import Document


def write(report: Report, *, time_unit: str | None = None) -> Iterator[bytes]:
    """The file, in pieces that are made as they are taken. `time_unit` says how long a unit of time is ("us", "2.5ms"); None:
    the unit of the costs, or a millisecond. Raises `ParameterError` for a text that is no time."""
    from pptrace.formats.chrome_writing import pieces  # noqa: PLC0415  (reading needs none of it)

    per_unit = microseconds_per_unit(time_unit, report.costs.unit)
    return pieces(report, Clock(report.timeline.ticks_per_unit, per_unit), per_unit)


def read(data: bytes, *, source: str = "trace", letter: str = "auto") -> Document:
    """The timeline that a file holds. Raises `FormatError` that begins with the place (`$.traceEvents[3].dur: ...`)."""
    return read_files([(source, data)], letter=letter)


def read_files(files: Iterable[tuple[str, bytes]], *, letter: str = "auto") -> Document:
    """The timeline of a run whose ranks wrote a file each: (name, bytes). `letter` says what B means in files of other
    programs (`op_text.letter_b`). Raises `FormatError` for files that cannot be of one run, and as `read` does."""
    from pptrace.formats import chrome_own, chrome_reading  # noqa: PLC0415  (writing needs none of it)
    from pptrace.formats.profiler_trace import document  # noqa: PLC0415

    found = []
    for name, data in files:
        file = chrome_reading.opened(data, name)
        if file.recorded is None:
            found.append(chrome_reading.marks(file))
        elif found:
            message = f"{name}: a file that pptrace wrote holds all ranks; give it alone"
            raise FormatError(message)
        else:
            return chrome_own.document_of(file, letter)
    return document(found, letter)
