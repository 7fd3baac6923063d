"""Exercises: every answer is worked out again from a grid drawn by hand, the same seed asks the same, and a sheet does not tell
its answers."""

from __future__ import annotations

import re
from itertools import chain

import pytest

from pptrace.api import simulate
from pptrace.errors import ParameterError
from pptrace.lesson.build import PageOptions, handout
from pptrace.lesson.document import Bullets, Document, Drawing, Folded
from pptrace.lesson.exercise import Choice, choose_holes, questions
from pptrace.lesson.html_page import html_page
from pptrace.lesson.svg_page import svg_page
from pptrace.lesson.text_page import markdown_page, text_page
from pptrace.lesson.words import Words
from pptrace.render.options import RenderOptions

GRID = """\
F0 F1 F2 F3 .  .  .  B0 .  B1 .  B2 .  B3
.  F0 F1 F2 .  .  B0 F3 B1 .  B2 .  B3 .
.  .  F0 F1 .  B0 F2 B1 F3 B2 .  B3 .  .
.  .  .  F0 B0 F1 B1 F2 B2 F3 B3 .  .  .
"""
"""1f1b, P=M=4, f=b=1: one column is one unit of time, so that an op in column t runs from t to t+1."""

STARTS = {
    (op, stage): t for stage, row in enumerate(GRID.splitlines()) for t, op in enumerate(row.split()) if op != "."
}
SEEDS = range(40)


@pytest.fixture(scope="module")
def report():
    return simulate("1f1b", num_ranks=4, num_microbatches=4)


def ask(report, seed: int, hidden: frozenset[int] = frozenset()) -> list[tuple[str, str]]:
    found = questions(report, Words(report, RenderOptions()), Choice(seed), hidden)
    return [(question.text, question.answer) for question in found]


def held(stage: int, t: int) -> list[int]:
    """Microbatches whose F has started and whose B has not ended by t."""
    return [m for m in range(4) if STARTS[f"F{m}", stage] <= t < STARTS[f"B{m}", stage] + 1]


@pytest.mark.parametrize("seed", SEEDS)
def test_the_next_op(report, seed: int) -> None:
    text, answer = ask(report, seed)[0]
    op, stage, end = re.match(r"(B\d) on stage (\d) ends at t=(\d+)\. Which op does stage", text).groups()
    assert STARTS[op, int(stage)] + 1 == int(end)
    start, following = min((t, o) for (o, s), t in STARTS.items() if s == int(stage) and t >= int(end))
    waiting = "at once" if start == int(end) else f"after {start - int(end)} of waiting"
    assert answer == f"{following}, at t={start} ({waiting})."


@pytest.mark.parametrize("seed", SEEDS)
def test_what_an_op_waits_for(report, seed: int) -> None:
    text, answer = ask(report, seed)[1]
    stage, since, op = re.match(r"Stage (\d) is idle from t=(\d+), before ([FB]\d)\.", text).groups()
    other = int(stage) - 1 if op.startswith("F") else int(stage) + 1
    end = STARTS[op, other] + 1
    assert end == STARTS[op, int(stage)] > int(since)
    assert answer == f"{op} on stage {other}, which ends at t={end}."


@pytest.mark.parametrize("seed", SEEDS)
def test_how_many_are_held(report, seed: int) -> None:
    text, answer = ask(report, seed)[2]
    stage, begin, end = map(int, re.search(r"does stage (\d) hold between t=(\d+) and t=(\d+),", text).groups())
    alive = held(stage, begin)
    assert all(held(stage, t) == alive or len(held(stage, t)) == len(alive) for t in range(begin, end))
    assert re.findall(r"\d", answer) == [str(len(alive)), *map(str, alive)]


@pytest.mark.parametrize("seed", SEEDS)
def test_a_lifetime(report, seed: int) -> None:
    text, answer = ask(report, seed)[4]
    m, stage = map(int, re.search(r"of microbatch (\d) on stage (\d) held", text).groups())
    begin, end = STARTS[f"F{m}", stage], STARTS[f"B{m}", stage] + 1
    assert answer == f"From t={begin}, when F{m} starts, until t={end}, when B{m} ends."


def test_questions_that_are_always_asked(report) -> None:
    _, _, _, peak, _, idle, step, larger = ask(report, 0)
    assert peak[1] == "4, from t=3: microbatches 0, 1, 2 and 3."
    assert idle[1] == "6/14 = 0.429 (divided by elapsed); 6/8 = 0.750 (divided by ideal)."
    assert step[1] == "t=14, after B3 on stage 0: every backward of the step has to be done and reduced first."
    assert larger[0].startswith("The same with M = 8 microbatches of the same size")
    assert larger[1] == "22; 6/22 = 0.273 (divided by elapsed)."


def test_stages_that_step_on_their_own() -> None:
    """The last stage has run its last backward at 11."""
    report = simulate("1f1b", num_ranks=4, num_microbatches=4, joint_update=False)
    assert ask(report, 0)[6][1].startswith("t=11, STEP of stage 3: ")


def test_a_schedule_without_a_flush_asks_for_a_version() -> None:
    report = simulate("pipedream", num_ranks=4, num_microbatches=8)
    text, answer = ask(report, 3)[6]
    assert "Which version does the backward of microbatch" in text
    assert re.fullmatch(r"Version \d, the one that its forward used\.", answer)


def test_a_lonely_rank_is_asked_what_there_is_to_ask() -> None:
    report = simulate("1f1b", num_ranks=1, num_microbatches=1)
    assert [text.split()[0] for text, _ in ask(report, 0)] == ["F0", "What", "From", "What", "When", "The"]


@pytest.mark.parametrize("seed", SEEDS)
def test_no_question_names_a_hidden_op(report, seed: int) -> None:
    holes = choose_holes(report, Choice(seed), 16)
    schedule = report.schedule
    (following, _), (waiting, _) = ask(report, seed, holes)[:2]
    op, stage = re.match(r"([FB]\d) on stage (\d)", following).groups()
    position = next(p for p in schedule.positions(int(stage)) if str(schedule.op(p)) == f"{stage}{op}")
    assert position not in holes
    assert position + 1 in holes
    if waiting.startswith("Stage"):
        stage, op = re.match(r"Stage (\d) is idle from t=\d+, before ([FB]\d)", waiting).groups()
        assert next(p for p in schedule.positions(int(stage)) if str(schedule.op(p)) == f"{stage}{op}") not in holes


def test_the_same_seed_asks_the_same(report) -> None:
    pages = {seed: text_page(handout(report, PageOptions(exercise=True, seed=seed)).page) for seed in range(6)}
    again = {seed: text_page(handout(report, PageOptions(exercise=True, seed=seed)).page) for seed in range(6)}
    assert pages == again
    assert len(set(pages.values())) == 6


def test_a_seed_means_the_same_in_every_version_of_python() -> None:
    """The first numbers of random.Random(7).random() are 0.3238..., 0.1508..., 0.6509...; of 100, then 99, then 98 things."""
    assert Choice(7).some(range(100), 3) == [32, 14, 65]


def test_a_quarter_is_hidden_unless_a_number_is_given(report) -> None:
    assert len(choose_holes(report, Choice(0), None)) == 8
    assert len(choose_holes(report, Choice(0), 3)) == 3
    assert len(choose_holes(report, Choice(0), 32)) == 32


def test_more_holes_than_ops_are_refused(report) -> None:
    with pytest.raises(ParameterError, match="the schedule has 32 ops; give fewer, or --holes all"):
        choose_holes(report, Choice(0), 33)


def test_an_exercise_has_one_schedule(report) -> None:
    with pytest.raises(ParameterError, match="leave --compare or --exercise out"):
        handout(report, PageOptions(exercise=True), report)


def test_hidden_ops_are_listed_in_the_key(report) -> None:
    text = text_page(handout(report, PageOptions(exercise=True, holes=32)).page)
    sheet, key = text.split("Answers\n")
    assert sheet.count("__") >= 32
    assert "  stage 3  F0 3-4, B0 4-5, F1 5-6, B1 6-7, F2 7-8, B2 8-9, F3 9-10, B3 10-11" in key.splitlines()


def test_a_grid_with_holes_keeps_the_other_ops(report) -> None:
    page = handout(report, PageOptions(exercise=True, holes=8)).page
    grid = [line.split("|")[1].split() for line in text_page(page).split("Answers\n")[0].splitlines() if "|" in line][
        1:5
    ]
    drawn = [row.split() for row in GRID.splitlines()]
    pairs = list(zip(chain(*grid), chain(*drawn), strict=True))
    assert sum(ours == "__" and theirs != "." for ours, theirs in pairs) == 8
    assert all(ours in ("__", theirs) for ours, theirs in pairs)


def test_a_blank_grid_tells_nothing_but_the_order(report) -> None:
    page = handout(report, PageOptions(exercise=True, blank=True)).page
    sheet = text_page(page).split("Answers\n")[0]
    assert sheet.count("|__ __ __ __ __ __ __ __ __ __ __ __ __ __\n") == 4
    assert "  stage 1  F0 F1 F2 B0 F3 B1 B2 B3" in sheet.splitlines()


@pytest.mark.parametrize("blank", [True, False])
@pytest.mark.parametrize("write", [html_page, svg_page, markdown_page, text_page], ids=lambda write: write.__name__)
def test_a_sheet_apart_does_not_tell_its_answers(report, write, blank: bool) -> None:
    made = handout(report, PageOptions(exercise=True, apart=True, blank=blank, holes=None if blank else 20))
    sheet = write(made.page)
    for told in ("6/14", "0.429", "4 3 2 1", "from t=3"):
        assert told not in sheet
        assert told in write(made.answers)
    assert not any(isinstance(block, Folded) for block in made.page.blocks)


def test_the_key_is_folded_behind_a_break() -> None:
    page = handout(simulate("gpipe", num_ranks=2, num_microbatches=2), PageOptions(exercise=True)).page
    folded = page.blocks[-1]
    assert isinstance(folded, Folded)
    asked, answered = (
        [b for b in blocks if isinstance(b, Bullets) and b.numbered] for blocks in (page.blocks, folded.blocks)
    )
    assert len(asked[0].items) == len(answered[0].items)


def test_drawings_with_holes_are_not_alive(report) -> None:
    """The script's data would tell what they hide."""
    page: Document = handout(report, PageOptions(exercise=True)).page
    assert [block.alive for block in page.blocks if isinstance(block, Drawing)] == [False]
    assert "<script" not in html_page(handout(report, PageOptions(exercise=True, apart=True)).page)


def test_the_lab_of_an_exercise_leaves_the_backlog_open(report) -> None:
    made = handout(report, PageOptions(exercise=True, apart=True, lab=True))
    assert "  2 and 3                  4" in text_page(made.page).splitlines()
    assert "  2 and 3                  4      3.5      3" in text_page(made.answers).splitlines()
