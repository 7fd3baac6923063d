"""The answer key of exercises about every schedule, worked out again from nothing but the start and end of every op: what a
reader with a pencil would do. It reads questions and answers as text."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import NamedTuple

import pytest

from pptrace.api import simulate
from pptrace.lesson.build import PageOptions
from pptrace.lesson.exercise import Choice, choose_holes, questions
from pptrace.lesson.words import Words
from pptrace.model import COMPUTE_KINDS
from pptrace.schedules.registry import entry, names

CASES = [
    *({"name": name, "num_ranks": 4, "num_microbatches": 8} for name in names()),
    {"name": "1f1b", "num_ranks": 3, "num_microbatches": 4, "comm": "1/2"},
    {"name": "1f1b", "num_ranks": 3, "num_microbatches": 2, "comm": 1, "link": "serial", "backward": 2},
    {"name": "1f1b", "num_ranks": 3, "num_microbatches": 4, "recompute": "full"},
    {"name": "gpipe", "num_ranks": 3, "num_microbatches": 4, "order": "lifo", "split_backward": True, "backward": 2},
    {"name": "1f1b", "num_ranks": 3, "num_microbatches": 4, "num_steps": 2, "step_time": 1, "reduce": "1/2"},
    {"name": "1f1b", "num_ranks": 3, "num_microbatches": 4, "forward": [1, 2, "7/3"], "joint_update": False},
    {"name": "pipedream", "num_ranks": 3, "num_microbatches": 3, "num_steps": 2},
    {"name": "dualpipev", "num_ranks": 2, "num_microbatches": 5, "overlap": "max"},
]
SEEDS = range(8)


class Ran(NamedTuple):
    """One op as the picture names it."""

    name: str
    stage: int
    number: str
    step: int
    kind: str
    start: Fraction
    end: Fraction


class Picture:
    """Every op of a schedule by rank, times in units."""

    def __init__(self, case: dict) -> None:
        case = dict(case)
        name = case.pop("name")
        chunks = {"num_chunks": 2} if "chunks" in entry(name).options else {}
        self.again = lambda factor: simulate(
            name, **{**chunks, **case, "num_microbatches": factor * case["num_microbatches"]}
        )
        self.report = self.again(1)
        schedule, timeline = self.report.schedule, self.report.timeline
        two_ways = schedule.placement.bidirectional
        self.by_stage = schedule.num_stages == schedule.num_ranks and not two_ways
        unit = timeline.ticks_per_unit
        self.ranks: list[list[Ran]] = []
        self.steps: list[Fraction] = []
        for rank in range(schedule.num_ranks):
            row = []
            for position in schedule.positions(rank):
                op = schedule.op(position)
                start, end = Fraction(timeline.starts[position], unit), Fraction(timeline.ends[position], unit)
                if op.kind not in COMPUTE_KINDS:
                    if op.kind.name == "STEP" and not op.step:
                        self.steps.append(start)
                    continue
                up = "^" if two_ways and op.microbatch >= schedule.num_microbatches / 2 else ""
                number = f"{op.microbatch}{up}" + (f"@{op.step}" if op.step else "")
                label = f"{'' if self.by_stage else op.stage}{op.kind.name}{number}"
                row.append(Ran(label, op.stage, number, op.step, op.kind.name, start, end))
            self.ranks.append(row)
        self.ops = [ran for row in self.ranks for ran in row]

    def asked(self, seed: int, *, holes: bool) -> list[tuple[str, str]]:
        words, choice = Words(self.report, PageOptions().figure("pp").drawing), Choice(seed)
        hidden = choose_holes(self.report, choice, None) if holes else frozenset()
        return [(question.text, question.answer) for question in questions(self.report, words, choice, hidden)]

    def row(self, name: str) -> list[Ran]:
        return self.ranks[int(name.split()[1])]

    def lives(self, row: list[Ran]) -> list[tuple[str, Fraction, Fraction]]:
        """(owner, from, to): from F, or R where there is one, to the end of W, or of B where there is none."""
        found = []
        for first in row:
            same = {ran.kind: ran for ran in row if (ran.stage, ran.number) == (first.stage, first.number)}
            if first.kind == "F":
                owner = first.number if self.by_stage else f"{first.stage}:{first.number}"
                found.append((owner, same.get("R", first).start, same.get("W", same.get("B")).end))
        return found


def value(text: str) -> Fraction:
    return Fraction(text.strip("()"))


RATIO = r"(?:\(\S+?\)|[^/\s]+)/(?:\(\S+?\)|[^/\s]+)"


def ratio(text: str) -> Fraction:
    """`6/14`, `(65/3)/100`."""
    top, bottom = re.fullmatch(r"(\(\S+?\)|[^/]+)/(.+)", text).groups()
    return value(top) / value(bottom)


def expect_next(picture: Picture, text: str, answer: str) -> None:
    name, row, end = re.match(r"(\S+) on (\w+ \d+) ends at t=(\S+)\. Which op", text).groups()
    ops = picture.row(row)
    assert any((ran.name, ran.end) == (name, value(end)) for ran in ops)
    index = max(i for i, ran in enumerate(ops) if (ran.name, ran.end) == (name, value(end)))
    while ops[index].end > ops[index].start and index + 1 < len(ops) and ops[index + 1].start == ops[index].start:
        index += 1  # the other op of a pair
    following = next(ran for ran in ops[index + 1 :] if ran.end > ran.start)
    partner = [ran for ran in ops if ran.start == following.start and ran is not following and ran.end > ran.start]
    assert answer.startswith(following.name + (f" together with {partner[0].name}" if partner else "") + ", at t=")
    waited = following.start - value(end)
    found = re.search(r"at t=(\S+) \((at once|after (\S+) of waiting)\)\.$", answer)
    assert (value(found[1]), value(found[3] or "0")) == (following.start, waited)


def expect_awaited(picture: Picture, text: str, answer: str) -> None:
    row, since, name = re.match(r"(\w+ \d+) is idle from t=(\S+), before (\S+)\. Which", text).groups()
    parts = [ran for ran in picture.row(row) if ran.name in name.split("+") and ran.start >= value(since)]
    assert [ran.name for ran in parts] == name.split("+")
    own = parts[0]
    assert not [ran for ran in picture.row(row) if ran.start < own.start and ran.end > value(since)]
    other, where, end, arrives = re.match(
        r"(\S+) on (\w+ \d+), which ends at t=([^,]+?)(?:, arrives at t=(\S+))?\.$", answer
    ).groups()
    awaited = next(ran for ran in picture.row(where) if ran.name == other)
    assert awaited.end == value(end)
    assert value(arrives or end) == own.start  # nothing else kept it from running
    assert where.lower() != row.lower()
    assert (awaited.kind == "F") in {ran.kind == "F" for ran in parts}


def expect_held(picture: Picture, text: str, answer: str) -> None:
    row, begin, end = re.search(r"does (\w+ \d+) hold between t=(\S+) and t=([^,]+), and of", text).groups()
    alive = [
        owner for owner, start, stop in picture.lives(picture.row(row)) if start <= value(begin) and value(end) <= stop
    ]
    touched = [
        owner for owner, start, stop in picture.lives(picture.row(row)) if start < value(end) and value(begin) < stop
    ]
    count, owners = re.match(r"(\d+): (?:microbatch(?:es)?|stage:microbatch) (.*)\.$", answer).groups()
    assert int(count) == len(alive) == len(touched)
    if " more" not in owners:
        assert sorted(re.split(", | and ", owners)) == sorted(alive)


def expect_peak(picture: Picture, text: str, answer: str) -> None:
    lives = picture.lives(picture.ranks[0])
    count, since = re.match(r"(\d+), from t=([^:]+):", answer).groups()
    held = {start: sum(first <= start < last for _, first, last in lives) for _, start, _ in lives}
    assert int(count) == max(held.values())
    assert value(since) == min(start for start, number in held.items() if number == int(count))


def expect_lifetime(picture: Picture, text: str, answer: str) -> None:
    number, stage = re.search(r"of microbatch (\S+) on stage (\d+) held", text).groups()
    begin, first, end, last = re.match(
        r"From t=(\S+), when (\S+) starts, until t=(\S+), when (\S+) ends\.$", answer
    ).groups()
    own = {ran.kind: ran for ran in picture.ops if (ran.stage, ran.number) == (int(stage), number)}
    created, released = own.get("R", own["F"]), own.get("W", own.get("B"))
    assert (created.name, created.start) == (first, value(begin))
    assert (released.name, released.end) == (last, value(end))


def fractions(ranks: list[list[Ran]]) -> tuple[Fraction, Fraction]:
    """Idle over (ranks x elapsed), and idle over busy; the two ops of a pair are busy once."""
    elapsed = max(ran.end for row in ranks for ran in row) - min(ran.start for row in ranks for ran in row)
    busy = sum(sum((end - start for start, end in {(ran.start, ran.end) for ran in row}), Fraction(0)) for row in ranks)
    idle = len(ranks) * elapsed - busy
    return idle / (len(ranks) * elapsed), idle / busy


def expect_fractions(picture: Picture, text: str, answer: str) -> None:
    found = re.match(
        r"(RATIO) = \S+ \(divided by .*?\); (RATIO) = \S+ \(divided by".replace("RATIO", RATIO), answer
    ).groups()
    assert tuple(map(ratio, found)) == fractions(picture.ranks)


def expect_step(picture: Picture, text: str, answer: str) -> None:
    if "Which version" in text:
        number, stage = re.search(r"of microbatch (\S+) on stage (\d+) use", text).groups()
        used = next(ran for ran in picture.ops if (ran.kind, ran.stage, ran.number) == ("F", int(stage), number))
        if picture.report.schedule.name == "pipedream":  # an update after every backward
            done = sum(ran.end <= used.start for ran in picture.ops if (ran.kind, ran.stage) == ("B", int(stage)))
            assert answer.startswith(f"Version {done},")
        return
    assert value(re.match(r"t=([^,]+), ", answer)[1]) == min(picture.steps)
    if "which op ends last" in text:
        first = [ran for ran in picture.ops if not ran.step]
        last = [ran.name for ran in first if ran.end == max(ran.end for ran in first)]
        named = re.findall(r"(?:after|,|and) (\S+) on", answer.split(":")[0])
        assert named == last


def expect_larger(picture: Picture, text: str, answer: str) -> None:
    other = picture.again(2)
    elapsed, share = re.match(rf"(\S+); ({RATIO}) = ", answer).groups()
    unit = other.timeline.ticks_per_unit
    assert value(elapsed) == Fraction(other.work.elapsed, unit)
    idle = sum(other.metrics["bubble_time"].values[rank].numerator for rank in range(other.schedule.num_ranks))
    assert ratio(share) == Fraction(idle, other.schedule.num_ranks * other.work.elapsed)


EXPECTED = {
    "Which op does": expect_next,
    "is it waiting for": expect_awaited,
    "How many": expect_held,
    "What is the peak": expect_peak,
    "From when until when": expect_lifetime,
    "What is the idle fraction over the elapsed time? And": expect_fractions,
    "STEP": expect_step,
    "Which version": expect_step,
    "The same with M": expect_larger,
}


@pytest.mark.parametrize("case", CASES, ids=lambda case: "-".join(map(str, case.values())))
@pytest.mark.parametrize("holes", [False, True], ids=["all-seen", "holes"])
def test_the_key_is_right(case: dict, holes: bool) -> None:
    picture = Picture(case)
    for seed in SEEDS:
        for text, answer in picture.asked(seed, holes=holes):
            found = [expect for mark, expect in EXPECTED.items() if mark in text]
            assert len(found) == 1, text
            if found[0] is expect_larger and seed:
                continue  # the same for every seed
            found[0](picture, text, answer)
