"""Round trips between the formats: the same bytes where a format can carry all, the same order where it carries the order, and
one line on stderr where something is lost."""

from __future__ import annotations

from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from running import answer, refusal, run

from pptrace import formats, simulate
from pptrace.analysis.report import Report
from pptrace.formats.listings import schedule_of
from pptrace.model import BOUNDARY_KINDS, Op, Schedule
from pptrace.render.options import RenderOptions
from pptrace.render.text import report_text
from pptrace.schedules.registry import names

if TYPE_CHECKING:
    from pathlib import Path

few = partial(settings, deadline=None, derandomize=True)
TWO_WAY = ("dualpipe", "chimera")

times = st.builds(Fraction, st.integers(1, 9), st.sampled_from([1, 2, 3, 7]))
SIZES = st.sampled_from([(2, 4), (2, 8), (4, 8)])
"""Ranks and microbatches that every schedule takes."""


class Case(NamedTuple):
    name: str
    options: dict[str, Any]


@st.composite
def cases(draw: st.DrawFn, *, among: tuple[str, ...], with_costs: bool = True) -> Case:
    ranks, num = draw(SIZES)
    options: dict[str, Any] = {"num_ranks": ranks, "num_microbatches": num, "backward": 2, "weight_grad": 1}
    if with_costs:
        half = draw(times)
        options |= {
            "forward": draw(times),
            "backward": half + draw(times),
            "weight_grad": half,
            "comm": draw(st.sampled_from([Fraction(0), Fraction(1, 2), Fraction(2, 3), Fraction(7)])),
            "link": draw(st.sampled_from(["latency", "serial"])),
            "overlap": draw(st.sampled_from(["sum", "max", "split"])),
            "num_steps": draw(st.sampled_from([1, 2])),
            "reduce": draw(st.sampled_from([0, Fraction(1, 3)])),
            "step_time": draw(st.sampled_from([0, 1])),
        }
    return Case(draw(st.sampled_from(among)), options)


def report_of(case: Case) -> Report:
    return simulate(case.name, **case.options)


def as_bytes(name: str, report: Report) -> bytes:
    content = formats.load(name).write(report)
    return content if isinstance(content, bytes) else b"".join(content)


def through(name: str, report: Report) -> Report:
    """What is read of the file that is written."""
    document = formats.read(as_bytes(name, report), f"a.{name}")
    assert document.timeline is not None
    assert document.findings == ()
    return Report(document.timeline, notes=document.notes)


def compute(schedule: Schedule) -> list[list[Op]]:
    return [[op for op in order if op.kind not in BOUNDARY_KINDS] for order in schedule]


def pairs(schedule: Schedule) -> set[tuple[Op, Op]]:
    return {(schedule.op(first), schedule.op(first + 1)) for first in schedule.pairs}


@pytest.mark.parametrize("name", ["chrome", "jsonl"])
@few(max_examples=60)
@given(case=cases(among=tuple(names())))
def test_a_trace_comes_back_byte_for_byte(name: str, case: Case) -> None:
    written = as_bytes("json", report_of(case))
    once = formats.read(written, "a.json")
    assert once.timeline is not None
    assert as_bytes("json", through(name, Report(once.timeline, notes=once.notes))) == written


@few(max_examples=30)
@given(case=cases(among=tuple(name for name in names() if name not in TWO_WAY), with_costs=False))
def test_a_schedule_file_carries_the_order(case: Case) -> None:
    report = report_of(case)
    result = run("convert", "-", "--to", "torch-compute", stdin=as_bytes("json", report))
    assert result.exit_code == 0
    document = formats.read(result.stdout_bytes, "a.csv")
    assert document.listing is not None
    found = schedule_of(document.listing).schedule
    assert compute(found) == compute(report.schedule)
    assert pairs(found) == pairs(report.schedule)
    assert found.placement == report.schedule.placement


@few(max_examples=30)
@given(case=cases(among=tuple(names()), with_costs=False), steps=st.sampled_from([1, 2]))
def test_a_text_grid_carries_the_order(case: Case, steps: int) -> None:
    report = report_of(Case(case.name, case.options | {"num_steps": steps}))
    text = report_text(report, RenderOptions(sections=("header", "legend", "grid")))
    document = formats.read(text.encode(), "a.txt")
    assert document.listing is not None
    found = schedule_of(document.listing).schedule
    assert compute(found) == compute(report.schedule)
    assert pairs(found) == pairs(report.schedule)


# -- the command ----------------------------------------------------------------------------------------------------


def test_from_json_to_chrome_and_back_on_the_command_line(tmp_path: Path) -> None:
    first, chrome, second = (str(tmp_path / name) for name in ("a.json", "b.perfetto.json", "c.json"))
    answer("trace", "zb-v", "-P", "3", "-M", "6", "-c", "1/7", "--steps", "2", "-o", first)
    assert answer("convert", first, "-o", chrome) == ""
    assert answer("convert", chrome, "-o", second) == ""
    assert (tmp_path / "a.json").read_bytes() == (tmp_path / "c.json").read_bytes()


def test_every_suffix_is_a_format_that_convert_writes(tmp_path: Path) -> None:
    for name, format_ in formats.FORMATS.items():
        for suffix in format_.suffixes:
            out = tmp_path / f"x{suffix}"
            assert run("convert", "1f1b", "-P", "2", "-M", "2", "-o", str(out)).exit_code == 0, name
            assert out.stat().st_size > 0


def test_what_is_read_and_written_can_be_converted_into_each_other(tmp_path: Path) -> None:
    for source in ("json", "jsonl", "chrome", "torch-compute", "torch-comms", "grid"):
        path = tmp_path / f"in.{source}"
        assert run("convert", "zb-h1", "-P", "2", "-M", "3", "--to", source, "-o", str(path)).exit_code == 0
        for target in formats.FORMATS:
            out = tmp_path / "out"
            result = run("convert", str(path), "--from", source, "--to", target, "-o", str(out))
            assert result.exit_code == 0, (source, target, result.output)
            assert result.stderr.count("\n") <= 1, (source, target)


@pytest.mark.parametrize("target", ["json", "jsonl", "chrome"])
def test_nothing_is_said_where_nothing_is_lost(target: str, tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    answer("trace", "zb-h1", "-P", "2", "-M", "3", "-c", "1/2", "--reduce", "1", "-o", str(path))
    assert run("convert", str(path), "--to", target).stderr == ""


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("torch-compute", "note: a PyTorch schedule file holds an order; times are left out; "),
        ("grid", "note: a text grid holds compute ops at their time steps; costs, messages and updates are left out\n"),
    ],
)
def test_what_is_lost_is_said_once(target: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    answer("trace", "zb-h1", "-P", "2", "-M", "3", "-c", "1/2", "--reduce", "1", "-o", str(path))
    result = run("convert", str(path), "--to", target)
    assert result.stderr.startswith(said)
    assert result.stderr.count("\n") == 1


def test_a_time_unit_belongs_to_chrome() -> None:
    said = refusal("convert", "1f1b", "-P", "2", "-M", "2", "--to", "json", "--time-unit", "us")
    assert said == "--time-unit is for Chrome traces, not for json; say --to chrome, or leave it out"
    found = answer("convert", "1f1b", "-P", "2", "-M", "2", "--to", "chrome", "--time-unit", "us")
    assert '"name":"0F1","cat":"compute","pid":0,"tid":1,"ts":1,"dur":1' in found


def test_a_plain_json_stays_a_trace_of_pptrace(tmp_path: Path) -> None:
    out = tmp_path / "x.json"
    answer("convert", "1f1b", "-P", "2", "-M", "2", "-o", str(out))
    assert out.read_bytes().startswith(b'{"schema":"pptrace.trace/1"')
