"""What a lesson says, sentence by sentence, for schedules worked out by hand."""

from __future__ import annotations

import re
from functools import cache

import pytest

from pptrace.api import simulate
from pptrace.lesson.build import PageOptions, handout
from pptrace.lesson.text_page import text_page


@cache
def page(name: str, ranks: int = 4, microbatches: int = 4, other: str = "", **options: object) -> str:
    """The text of a page on one line, so that folding does not matter."""
    sizes = {
        key: options.pop(key) for key in ("comm", "backward", "num_chunks", "num_steps", "forward") if key in options
    }
    report = simulate(name, num_ranks=ranks, num_microbatches=microbatches, **sizes)
    beside = simulate(other, num_ranks=ranks, num_microbatches=microbatches, **sizes) if other else None
    return " ".join(text_page(handout(report, PageOptions(**options), beside).page).split())


@pytest.mark.parametrize(
    "fact",
    [
        "Warm-up, t=0 to t=4: until stage 3, the last, starts its first backward (B0).",
        "Before its own first backward a stage runs this many ops, from stage 0 on: 4 3 2 1.",
        "All stages run at once for the first time from t=3 to t=4.",
        "stage 1 F0 1-2, F1 2-3, F2 3-4",
        "Steady phase, t=4 to t=10: until stage 3 has run its last forward (F3). Stage 3 is never idle here. It runs a "
        "backward and a forward in turn.",
        "stage 3 B0 4-5, F1 5-6, B1 6-7, F2 7-8, B2 8-9, F3 9-10",
        "Drain, t=10 to t=14: stage 3 has no forward left. The stages fall idle one by one: stage 3 at t=11, stage 2 "
        "at t=12, stage 1 at t=13 and stage 0 at t=14.",
        "The last backward to end is B3 on stage 0, at t=14.",
        "STEP runs, at t=14; every stage waits for the gradients of all.",
        "microbatch 3, forward 3 7 8 9 microbatch 3, full backward 13 12 11 10",
        "every stage: 4 F * 1 + 4 B * 1 = 8 elapsed = work + idle = 8 + 6 = 14 2M + 2(P-1) = 2*4 + 2*(4-1) = 8 + 6 = 14",
        "6/14 = 0.429 is the idle fraction of the elapsed time, 6/8 = 0.750 the overhead over the ideal time.",
        "bubble / elapsed (elapsed idle fraction) 6/14 = 0.429 elapsed bubble / ideal (overhead ratio) 6/8 = 0.750 ideal",
        "At t=3 stage 0 holds 4: microbatches 0, 1, 2 and 3. The end of B0 at t=8 frees only microbatch 0; microbatch 3 lives "
        "until B3 ends at t=14.",
        "P = 4 is a bound on every stage, however many microbatches there are. A bound is not the peak: the peaks are 4 3 2 1; "
        "only stage 0 reaches it.",
        "stage 0 0-8 1-10 2-12 3-14 stage 1 1-7 2-9 3-11 7-13",
        "The idle time of a stage stays 6 while its work grows with M, so that its share falls: from 0.429 of the elapsed time "
        "at M=4 to 0.0857 at M=32.",
        "8 2 x 22 6/22 = 0.273 6/16 = 0.375 4 11 3/11 = 0.273",
        "(P-1)/(M+P-1) = (4-1)/(4+4-1) = 3/7",
        "latency: c = 0.5 (P-1)/(M+P-1) 3/7 = 0.429 11/19 = 0.579 does not apply: needs c = 0",
        "Not pipedream, which has no flush and stashes weight versions.",
        "what they do needs evidence.",
    ],
)
def test_1f1b_p4_m4(fact: str) -> None:
    assert fact in page("1f1b")


@pytest.mark.parametrize(
    "fact",
    [
        "Warm-up, t=0 to t=7",
        "There is no steady phase: when stage 3 starts its first backward, it has already run all its forwards.",
        "2M + 2(P-1) = 2*4 + 2*(4-1) = 8 + 6 = 14",
        "No stage holds more than P = 4 here, but only because M is small: with M=8 it is 8, so that P is no bound of "
        "this order.",
    ],
)
def test_gpipe_p4_m4(fact: str) -> None:
    assert fact in page("gpipe")


@pytest.mark.parametrize(
    "fact",
    [
        "D=4 ranks, M=4 microbatches",
        "until S4, the last, starts its first backward (B1)",
        "S4 B1 4-5, F2 5-6, B2 6-7, F3 7-8, B3 8-9, F4 9-10",
        "2M + 2(D-1) = 2*4 + 2*(4-1) = 8 + 6 = 14",
        "D = 4 is a bound",
        "At t=3 S1 holds 4: microbatches 1, 2, 3 and 4.",
        "(D-1)/(M+D-1)",
        "min(M, D-r)",
    ],
)
def test_textbook_names(fact: str) -> None:
    assert fact in page("1f1b", names="textbook")


def test_textbook_names_leave_no_other_name() -> None:
    text = page("1f1b", names="textbook", other="gpipe", lab=True).replace("pptrace show 1f1b -P 4 -M 4", "")
    assert re.findall(r"\bP\b|\bstage [0-3]\b|\b[FB]0\b", text) == []


def test_one_based_names_keep_p() -> None:
    assert "2M + 2(P-1)" in page("1f1b", one_based=True)
    assert "F1 0-1" in page("1f1b", one_based=True)


def test_unequal_f_and_b_are_written_out() -> None:
    """P=4 M=8 f=1 b=2: 24 + 9 = 33."""
    assert "M*(f+b) + (P-1)*(f+b) = 8*(1+2) + (4-1)*(1+2) = 24 + 9 = 33" in page("1f1b", 4, 8, backward=2)


def test_no_formula_is_written_out_where_the_trace_is_another_sum() -> None:
    for text in (
        page("1f1b", comm=1),
        page("zb-h1", 4, 8),
        page("1f1b", forward=(1, 1, 1, 2)),
        page("1f1b", num_steps=2),
    ):
        assert "2M + 2(" not in text
        assert "+ (P-1)*(f+b) = " not in text.split("The arithmetic")[1].split("Where the closed")[0]


def test_ranks_with_unequal_idle_time_are_added_one_by_one() -> None:
    """P=2 M=2, f=1,2, b=1: stage 0 F0 F1, stage 1 F0 B0 F1 B1 from 1 to 7, stage 0 ends with B1 at 8."""
    text = page("1f1b", 2, 2, forward=(1, 2))
    assert "elapsed = 8 work + idle, from stage 0 on: 4+4 6+2" in text
    assert "stage 0: 2 F * 1 + 2 B * 1 = 4 stage 1: 2 F * 2 + 2 B * 1 = 6" in text


def test_interleaved_with_few_microbatches_names_the_condition() -> None:
    text = page("interleaved", 4, 4, num_chunks=2)
    assert re.search(r"fewer microbatches than ranks: M = 3 .*? does not apply: needs M >= P", text)


def test_1f1b_with_few_microbatches_still_agrees() -> None:
    assert "fewer microbatches than ranks: M = 3 (P-1)/(M+P-1) 0.5 6/12 = 0.500 agrees" in page("1f1b")


def test_a_schedule_without_closed_form_says_so() -> None:
    from pptrace.model import Op, Placement, Schedule

    order = [[Op.parse(text) for text in ("0F0", "0B0")]]
    report = simulate(Schedule.from_ops("mine", Placement.loop(1), 1, order))
    text = text_page(handout(report).page)
    assert "No closed form is known for this order: the trace is all there is." in text
    assert "More microbatches" not in text


def test_a_comparison_names_the_difference() -> None:
    text = page("gpipe", 4, 4, other="1f1b")
    assert "Beside it: 1f1b (flush)" in text
    assert "Both take 14. The peaks of what is held differ: 4 on every stage against 4 3 2 1." in text
    assert "6 on every stage 6 on every stage" in text


def test_pipedream_is_not_1f1b() -> None:
    text = page("pipedream", 4, 8, other="1f1b")
    assert "weight versions kept 4 3 2 1 1 1 1 1" in text
    assert "The two are not the same thing, whatever they are called." in text
    assert "There is no flush" in text
    assert "not the same thing" not in page("gpipe", 4, 4, other="1f1b")


def test_several_steps_tell_the_story_of_the_first() -> None:
    text = page("1f1b", num_steps=2)
    assert "What follows is the first of 2 optimizer steps." in text
    assert "Drain, t=10 to t=14" in text


def test_the_lab_has_its_figures_and_its_limits() -> None:
    text = page("1f1b", lab=True)
    assert "2 and 3 4 3.5 3 4 and 4 4 4 4 0 and 4 4 2 0" in text
    assert "no stages, no microbatches and no bubble equation" in text


def test_the_page_says_which_invariant() -> None:
    text = page("gpipe")
    assert "the microbatch size: an op takes as long as before, and the global batch grows with M" in text
    assert "the global batch: a microbatch shrinks as M grows." in text
