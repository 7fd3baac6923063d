"""What the command line makes of a source: files are not worked out twice."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pptrace import simulate
from pptrace.cli.options import ScheduleOptions
from pptrace.cli.source import load
from pptrace.formats import trace_json

if TYPE_CHECKING:
    from pathlib import Path


def trace_file(folder: Path) -> str:
    path = folder / "1f1b.json"
    path.write_bytes(trace_json.write(simulate("1f1b", num_ranks=4, num_microbatches=4)))
    return str(path)


def test_what_reading_a_trace_computed_is_not_computed_again(tmp_path: Path) -> None:
    loaded = load(trace_file(tmp_path), ScheduleOptions())
    assert loaded.document is not None
    assert loaded.document.report is not None
    assert loaded.report().metrics is loaded.document.report.metrics


def test_notes_do_not_reach_a_report_under_other_notes(tmp_path: Path) -> None:
    report = load(trace_file(tmp_path), ScheduleOptions()).report()
    plain = report.assumptions
    assert report.with_notes(("M is 4",)).assumptions == [*plain, "M is 4"]
    assert report.assumptions == plain


def test_sizes_given_beside_a_trace_are_counted(tmp_path: Path) -> None:
    found = load(trace_file(tmp_path), ScheduleOptions(activation_bytes="1KiB")).report().bytes
    assert found is not None
    assert [rank.held for rank in found.ranks] == [4096, 3072, 2048, 1024]
