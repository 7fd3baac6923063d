"""That lessons are true where schedules are unusual: one rank, one microbatch, ties, several steps, no flush, recomputation,
several chunks. Every expected sentence is worked out by hand; the tables of the story are compared with the trace."""

from __future__ import annotations

import re
from collections import Counter
from functools import cache
from itertools import pairwise

import pytest

from pptrace.analysis.report import Report
from pptrace.api import simulate
from pptrace.lesson.build import PageOptions, handout
from pptrace.lesson.document import Bullets, Tabular
from pptrace.lesson.html_page import html_page
from pptrace.lesson.tex_page import tex_page
from pptrace.lesson.text_page import text_page
from pptrace.model import COMPUTE_KINDS
from pptrace.render.numbers import time_text
from pptrace.schedules.registry import entry, names
from pptrace.timeline import Timeline

CHUNKED = [name for name in names() if "chunks" in entry(name).options]


@cache
def report(name: str, ranks: int = 4, microbatches: int = 4, **options: object) -> Report:
    chunks = {"num_chunks": 2} if name in CHUNKED else {}
    return simulate(name, num_ranks=ranks, num_microbatches=microbatches, **{**chunks, **options})


def page(name: str, ranks: int = 4, microbatches: int = 4, *, textbook: bool = False, **options: object) -> str:
    """A lesson as text, on one line, so that folding does not matter."""
    chosen = PageOptions(names="textbook" if textbook else "")
    return " ".join(text_page(handout(report(name, ranks, microbatches, **options), chosen).page).split())


def rules(name: str, **options: object) -> str:
    made = handout(report(name, 2, 4, **options), PageOptions(exercise=True)).page
    return " ".join(next(b for b in made.blocks if isinstance(b, Bullets) and b.items[0].startswith("A ")).items)


STORIES = [
    *({"name": name, "ranks": 2, "microbatches": 4} for name in names()),
    {"name": "1f1b", "ranks": 3, "microbatches": 3, "num_steps": 2},
    {"name": "1f1b", "ranks": 3, "microbatches": 3, "num_steps": 2, "step_time": 2, "joint_update": False},
    {"name": "zb-h1", "ranks": 3, "microbatches": 3, "comm": "1/2"},
    {"name": "1f1b", "ranks": 3, "microbatches": 3, "recompute": "full", "comm": 1},
    {"name": "gpipe", "ranks": 3, "microbatches": 3, "recompute": "early"},
    {"name": "pipedream", "ranks": 2, "microbatches": 3, "num_steps": 2, "step_time": 1},
    {"name": "pipedream-2bw", "ranks": 2, "microbatches": 3, "num_steps": 2},
]


@pytest.mark.parametrize("case", STORIES, ids=lambda case: "-".join(map(str, case.values())))
def test_the_story_tells_every_op_once_and_when_it_runs(case: dict) -> None:
    """All phases together: of the first step, and of all steps where there is no flush."""
    case = dict(case)
    found = report(case.pop("name"), case.pop("ranks"), case.pop("microbatches"), **case)
    blocks = handout(found).page.blocks
    phases = [b.table for b in blocks if isinstance(b, Tabular) and b.table.title.endswith("ops and when they run")]
    schedule, timeline = found.schedule, found.timeline
    for rank in range(schedule.num_ranks):
        cells = [text for table in phases for text in table.rows[rank][1].split(", ") if text != "idle"]
        left_out = sum(int(text.split()[1]) for text in cells if text.endswith(" more ..."))
        told = Counter(text.split()[1] for text in cells if not text.endswith(" more ..."))
        expected = Counter(
            f"{time_text(timeline.starts[p], timeline.ticks_per_unit)}-{time_text(timeline.ends[p], timeline.ticks_per_unit)}"
            for p in schedule.positions(rank)
            if schedule.op(p).kind in COMPUTE_KINDS and (schedule.asynchronous or not schedule.op(p).step)
        )
        assert told <= expected
        assert told.total() + left_out == expected.total()


@pytest.mark.parametrize("case", STORIES, ids=lambda case: "-".join(map(str, case.values())))
def test_phases_follow_one_another(case: dict) -> None:
    case = dict(case)
    text = page(case.pop("name"), case.pop("ranks"), case.pop("microbatches"), **case)
    ends = re.findall(r"(Warm-up|Steady phase|Drain), t=(\S+) to t=(\S+):", text)
    assert [name for name, _, _ in ends] in (["Warm-up", "Steady phase", "Drain"], ["Warm-up", "Drain"])
    assert all(float(begin) < float(end) for _, begin, end in ends)
    assert all(one[2] == other[1] for one, other in pairwise(ends))


@pytest.mark.parametrize(
    "fact",
    [
        "Warm-up, t=0 to t=1: until stage 0 starts its first backward (B0). warm-up",
        "Drain, t=7 to t=8: stage 0 has no forward left. drain",
        "No stage is idle, with any of these numbers of microbatches. Say first what is held fixed:",
    ],
)
def test_one_rank(fact: str) -> None:
    """F0 B0 F1 B1 F2 B2 F3 B3."""
    assert fact in page("1f1b", 1, 4)


def test_one_microbatch() -> None:
    text = page("1f1b", 4, 1)
    assert "Until then no weight has changed: forward and backward used one version." in text
    assert (
        "Follow a microbatch: forwards go from the first stage to the last, backwards come back. its way starts at"
        in text
    )
    assert "The last microbatch matters" not in text
    assert "all 1 " not in text
    assert "To run all forwards first is to hold" not in text  # it is to hold as many


def test_several_ranks_that_end_at_once() -> None:
    """zb-h1 P=4 M=8 f=i=w=1: 27, and W7 is last on every stage."""
    text = page("zb-h1", 4, 8)
    assert "Drain, t=22 to t=27: stage 3 has no forward left. All stages are done at t=27." in text
    assert "W7 on stage 0, W7 on stage 1, W7 on stage 2 and W7 on stage 3 end last, at t=27." in text


def test_some_ranks_that_end_at_once() -> None:
    assert "The ranks are done: rank 1 and rank 2 at t=17 and rank 0 and rank 3 at t=18." in page("chimera", 4, 8)


def test_steps_with_a_time_of_their_own() -> None:
    """Step 0 ends at 14, STEP takes 1, step 1 ends at 29; the second STEP is not counted."""
    text = page("1f1b", num_steps=2, step_time=1)
    assert "What follows is the first of 2 optimizer steps." in text
    assert "Elapsed 29" in text
    assert (
        "Between two steps both make the run longer and count as idle time; after the last one they do not count."
        in text
    )
    assert "where they delay other ops that is idle time, after the last of these they are outside elapsed." in text
    alone = page("1f1b", step_time=1)
    assert "STEP 1 per rank, outside elapsed." in alone
    assert "Neither counts as elapsed time." in alone


def test_stages_that_update_on_their_own() -> None:
    text = page("1f1b", joint_update=False)
    assert (
        "The backwards of a stage come before its own STEP, so that all 4 microbatches used one version of its weights."
        in text
    )
    assert "STEP runs, at t=11 to 14; every stage waits for its own." in text
    assert "Until then no weight has changed" not in text


@pytest.mark.parametrize(
    "fact",
    [
        "until stage 3, the last, starts its first backward (R0).",
        "microbatch 0, recomputation of a forward 10 8 6 4",
        "stage 0 4 3 microbatches 0, 1, 2 and 3 4",
        "P = 4 is a bound on the inputs of every stage, however many microbatches there are. A bound is not the peak: the "
        "peaks are 4 3 2 1; only stage 0 reaches it. To run all forwards first is to hold all 8.",
        "does not apply: needs no recomputation (here --recompute full)",
    ],
)
def test_recomputation(fact: str) -> None:
    """P=4 M=8 f=b=1: stage 3 runs F0 R0 B0 from 3, so stage 2 recomputes at 6, stage 1 at 8, stage 0 at 10."""
    assert fact in page("1f1b", 4, 8, recompute="full")


@pytest.mark.parametrize(
    "fact",
    [
        "What follows is the way of all 6 microbatches: without a flush the pipeline fills and drains once.",
        "Drain, t=13 to t=16: stage 2 has no forward left. The stages fall idle one by one: stage 2 at t=14, stage 1 at t=15 "
        "and stage 0 at t=16.",
        "microbatch 2@1, forward 10 11 12",
        "M only says how long the run is, for an update follows every microbatch: no batch grows with it.",
    ],
)
def test_several_steps_without_a_flush(fact: str) -> None:
    """P=3, six microbatches: stage 2 runs F and B in turn from 2 to 14."""
    assert fact in page("pipedream", 3, 3, num_steps=2)


def test_an_update_every_m_microbatches_has_a_batch() -> None:
    text = page("pipedream-2bw", 3, 4)
    assert "the global batch grows with M" in text
    assert "M only says how long the run is" not in text


def test_measured_times_are_no_model() -> None:
    own = report("1f1b", 2, 2).timeline
    measured = Timeline(
        *(own.schedule, own.costs, own.dependencies, own.starts, own.ends, own.arrivals, own.ticks_per_unit),
        measured=True,
    )
    text = " ".join(text_page(handout(Report(measured)).page).split())
    assert "A fraction here is that of one run, with whatever disturbed it." in text
    assert "statement about this model" not in text
    assert "Not modelled" not in text


def test_p_is_called_a_bound_only_where_it_is_one() -> None:
    assert "held then min(M, P-r) bound P" in page("1f1b", 4, 8)
    assert "held then M P stage 0" in page("gpipe", 4, 8)
    assert "held then M P stage 0" in page("gpipe", 4, 4)  # with M=8 it is passed
    assert "P = 4 is no bound of this order: 8 are held (peaks 8 on every stage)." in page("gpipe", 4, 8)


def test_chunks_are_of_stages() -> None:
    text = page("dualpipev", 4, 8)
    assert "until W of the same microbatch on the same stage ends, or B where the backward is not split." in text


def test_the_time_of_a_pair() -> None:
    """P=4 M=8 f=1 b=2 w=1: FB = 3 for both chunks of a rank; 24 + 3/2*(3+2-3) = 27."""
    text = page("dualpipev", 4, 8)
    assert (
        "FB = 3 is the time of an overlapped pair, per microbatch and rank as f and b are; with 2 stages on a rank one "
        in text
    )
    assert "one pair takes 1.5" in text
    assert "(P-1)/2*(FB+b-3w) = (4-1)/2*(3+2-3*1) = 3" in text
    assert "FB = 3 is the time of an overlapped pair, per microbatch and rank as f and b are With" in page(
        "dualpipe", 4, 8
    )


def test_a_formula_that_does_not_apply_is_marked_where_it_is_filled_in() -> None:
    text = page("1f1b", 4, 8, comm=1)
    assert "(P-1)/(M+P-1) = (4-1)/(8+4-1) = 3/11 (does not apply here)" in text
    assert "= 38 (does" not in text


def test_a_formula_of_one_letter_is_not_filled_in() -> None:
    assert "M = 8 = 8" not in page("gpipe", 4, 8)


@pytest.mark.parametrize("name", names())
@pytest.mark.parametrize("exercise", [False, True], ids=["lesson", "exercise"])
def test_textbook_names_everywhere(name: str, exercise: bool) -> None:
    """No P, no stage or microbatch 0, in text and in what a page of HTML shows; ranks are counted from 0."""
    found = report(name, 4, 8)
    chosen = PageOptions(names="textbook", exercise=exercise, lab=True)
    made = handout(found, chosen, None if exercise else found).page
    shown = re.sub(r"<(script|style|defs)\b.*?</\1>|<[^>]*>", " ", html_page(made), flags=re.DOTALL)
    for text in (text_page(made), shown):
        said = text.replace("pptrace show 1f1b -P 4 -M 4", "")
        assert re.findall(r"\bP\b|\bstage \d|\bmicrobatch(?:es)? 0\b|\b0?[FBIWR]0\b|\b0[FBIWR]\d", said) == []


def test_rules_of_an_exercise() -> None:
    plain = rules("1f1b")
    assert "A stage runs one op at a time. " in plain
    assert "Each stage takes the ops of one kind and stage in the order of their microbatches." in plain
    assert "R, " not in plain
    assert "arrived" not in plain
    assert rules("1f1b", comm=1).count("has arrived") == 2
    assert "runs before the backward and waits for what its backward waits for." in rules("1f1b", recompute="full")
    assert "runs before the backward and may run any time after its forward." in rules("1f1b", recompute="early")
    assert "in the order of their microbatches" not in rules("gpipe", order="lifo")
    assert "The weights of a stage change after its last backward of the step" in rules("1f1b", joint_update=False)
    assert "The weights" not in rules("pipedream")


def test_rules_of_overlapped_pairs() -> None:
    assert "(an overlapped pair counts as one)" in rules("dualpipev")
    assert "An overlapped pair starts when both its ops may start" in rules("dualpipev")
    assert "overlapped pair" not in rules("dualpipev", overlap="split")


def test_the_last_ops_before_the_step_are_all_named() -> None:
    made = handout(report("zb-h1", 4, 8), PageOptions(exercise=True)).page
    text = " ".join(text_page(made).split())
    assert "t=27, after W7 on stage 0, W7 on stage 1, W7 on stage 2 and W7 on stage 3: every backward" in text


def test_a_page_with_two_figures_has_one_script() -> None:
    found = report("gpipe")
    made = html_page(handout(found, None, report("1f1b")).page)
    assert made.count("function enliven(") == 1
    assert re.findall(r'^enliven\("(\w+)"\);$', made, re.MULTILINE) == ["pp", "other"]


def test_figures_of_an_exercise_stay_legible() -> None:
    """Every figure of a page has a least width, at which its names are 7.5 pixels high."""
    made = html_page(handout(report("interleaved", 4, 16), PageOptions(exercise=True)).page)
    styles = re.findall(r'<svg style="([^"]*)"', made)
    assert len(styles) == 2
    assert all(re.search(r"min-width:\d", style) for style in styles)


def test_formulas_that_are_folded_in_tex_hang() -> None:
    assert "{\\hangindent=2em (M+P-{}1)$\\times$(f+b)" in tex_page(handout(report("1f1b")).page)
