"""Questions about a schedule and their answers, both from the trace. It owns the choice of what is asked: the same seed asks
the same questions in every version of Python, since all it draws are the numbers of `random.Random(seed).random()`, which
Python promises to keep."""

from __future__ import annotations

from itertools import pairwise
from random import Random
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from pptrace.analysis.idle import WAIT_BACKWARD, WAIT_FORWARD
from pptrace.analysis.lifetimes import ACTIVATION
from pptrace.errors import ParameterError
from pptrace.lesson.story import last_to_end
from pptrace.lesson.words import capital
from pptrace.model import BACKWARD_KINDS, OpKind
from pptrace.render.numbers import ratio_text, time_text
from pptrace.render.tables import Table

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pptrace.analysis.lifetimes import Lifetime
    from pptrace.analysis.report import Report
    from pptrace.lesson.words import Words

_T = TypeVar("_T")


class Question(NamedTuple):
    """A question and its answer, with the reason."""

    text: str
    answer: str


class Choice:
    """A sequence of choices that a seed decides."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)

    def of(self, found: Sequence[_T]) -> _T:
        """One of `found`, which must not be empty."""
        return found[int(self._random.random() * len(found))]

    def some(self, found: Sequence[_T], count: int) -> list[_T]:
        """`count` different ones."""
        rest = list(found)
        return [rest.pop(int(self._random.random() * len(rest))) for _ in range(min(count, len(rest)))]


def choose_holes(report: Report, choice: Choice, wanted: int | None) -> frozenset[int]:
    """The positions of the ops to hide: `wanted`, or a quarter of all. Raises `ParameterError` for more than there are."""
    positions = sorted(drawn_positions(report))
    if wanted is not None and wanted > len(positions):
        message = (
            f"--holes {wanted}: the schedule has {len(positions)} ops; give fewer, or --holes all for a blank grid"
        )
        raise ParameterError(message)
    return frozenset(choice.some(positions, max(len(positions) // 4, 1) if wanted is None else wanted))


def drawn_positions(report: Report) -> set[int]:
    """The positions of the compute ops that take time."""
    timeline, schedule = report.timeline, report.schedule
    found = {position for order in report.work.order for position in order}
    found |= {position + 1 for position in schedule.pairs}
    return {position for position in found if timeline.ends[position] > timeline.starts[position]}


def questions(report: Report, words: Words, choice: Choice, hidden: frozenset[int] = frozenset()) -> list[Question]:
    """As many as the schedule has matter for. No question names an op of `hidden`."""
    found = [*_next_op(report, words, choice, hidden), *_waits_for(report, words, choice, hidden)]
    for make in (_held, _peak, _lifetime, _idle_fraction, _step, _larger):
        found += make(report, words, choice)
    return found


def _partners(report: Report) -> set[int]:
    """The second ops of overlapped pairs."""
    return {position + 1 for position in report.schedule.pairs}


def _compute(report: Report) -> Iterator[tuple[int, tuple[int, ...]]]:
    yield from ((rank, order) for rank, order in enumerate(report.work.order) if order)


def _next_op(report: Report, words: Words, choice: Choice, hidden: frozenset[int]) -> list[Question]:
    """After a backward, if there is one with something behind it, for that is where orders differ; with a hidden answer, if
    there is one."""
    schedule, timeline = report.schedule, report.timeline
    every = [(rank, one, other) for rank, order in _compute(report) for one, other in pairwise(order)]
    told = [each for each in every if each[1] not in hidden and each[1] + 1 not in hidden & _partners(report)]
    if not told:
        return []
    backwards = [each for each in told if schedule.op(each[1]).kind in BACKWARD_KINDS]
    asked = [each for each in backwards if each[2] in hidden] or [each for each in told if each[2] in hidden]
    rank, one, other = choice.of(asked or backwards or told)
    end, start = timeline.ends[one], timeline.starts[other]
    waits = "at once" if start == end else f"after {words.time(start - end)} of waiting"
    together = (
        f" together with {words.short(other + 1)}"
        if other in schedule.pairs and start == timeline.starts[other + 1]
        else ""
    )
    return [
        Question(
            f"{words.short(one)} on {words.row(rank)} ends at t={words.time(end)}. Which op does {words.row(rank)} run "
            "next, and when does it start?",
            f"{words.short(other)}{together}, at t={words.time(start)} ({waits}).",
        )
    ]


def _waits_for(report: Report, words: Words, choice: Choice, hidden: frozenset[int]) -> list[Question]:
    slots = [
        slot
        for slot in report.idle.slots
        if slot.cause in (WAIT_FORWARD, WAIT_BACKWARD)
        and slot.position >= 0 <= slot.awaited
        and slot.position not in hidden
        and slot.position + 1 not in hidden & _partners(report)
    ]
    if not slots:
        return []
    slot = choice.of(slots)
    timeline = report.timeline
    arrival = timeline.arrivals[slot.awaited]
    arrives = f", arrives at t={words.time(arrival)}" if arrival != timeline.ends[slot.awaited] else ""
    return [
        Question(
            f"{capital(words.row(slot.rank))} is idle from t={words.time(slot.start)}, before "
            f"{words.block(slot.position)}. Which op on another {words.row_noun} is it waiting for, and when does that end?",
            f"{words.op(slot.awaited)}, which ends at t={words.time(timeline.ends[slot.awaited])}{arrives}.",
        )
    ]


def _held(report: Report, words: Words, choice: Choice) -> list[Question]:
    """Between two moments at which something changes, so that nothing depends on which end of an interval counts, and nobody
    comes for another who goes."""
    memory = report.memory
    lives: list[list[Lifetime]] = [[] for _ in range(report.schedule.num_ranks)]
    for life in report.lifetimes:
        if life.kind == ACTIVATION:
            lives[life.rank].append(life)
    levels = []
    for rank, own in enumerate(lives):
        for start, end in pairwise(sorted({tick for life in own for tick in (life.start, life.end)})):
            alive = tuple(life for life in own if life.start <= start < life.end)
            if alive and start != memory.peaks[rank].at:
                levels.append((rank, start, end, alive))
    if not levels:
        return []
    rank, start, end, alive = choice.of([level for level in levels if len(level[3]) > 1] or levels)
    between = f"between t={words.time(start)} and t={words.time(end)}"
    owners = [(life.stage, life.microbatch, life.step) for life in alive]
    return [
        Question(
            f"How many {memory.unit} does {words.row(rank)} hold {between}, and of which microbatches?",
            f"{len(alive)}: {words.owners(owners)}.",
        )
    ]


def _peak(report: Report, words: Words, choice: Choice) -> list[Question]:
    del choice  # always the first rank: it is where the most is held, and where people expect P
    peak = report.memory.peaks[0]
    if not peak.held:
        return []
    return [
        Question(
            f"What is the peak of {report.memory.unit} on {words.row(0)}, when is it first reached, and who is held then?",
            f"{peak.held}, from t={words.time(peak.at)}: {words.owners(peak.owners)}.",
        )
    ]


def _lifetime(report: Report, words: Words, choice: Choice) -> list[Question]:
    lives = [life for life in report.lifetimes if life.kind == ACTIVATION and life.released_by >= 0]
    if not lives:
        return []
    life = choice.of(lives)
    owner = f"microbatch {words.microbatch(life.microbatch, life.step)} on {words.names.stage(life.stage)}"
    return [
        Question(
            f"From when until when is the activation of {owner} held, and which op releases it?",
            f"From t={words.time(life.start)}, when {words.short(life.created_by)} starts, until t={words.time(life.end)}, "
            f"when {words.short(life.released_by)} ends.",
        )
    ]


def _idle_fraction(report: Report, words: Words, choice: Choice) -> list[Question]:
    del choice
    found = report.metrics
    over_elapsed, over_ideal = found["bubble_over_elapsed"], found["bubble_over_ideal"]
    if not over_elapsed.value.denominator or not over_ideal.value.denominator:
        return []
    return [
        Question(
            "What is the idle fraction over the elapsed time? And the idle time over the ideal time?",
            f"{words.ratio(over_elapsed)} (divided by {over_elapsed.denominator}); {words.ratio(over_ideal)} (divided by "
            f"{over_ideal.denominator}).",
        )
    ]


def _step(report: Report, words: Words, choice: Choice) -> list[Question]:
    schedule, timeline = report.schedule, report.timeline
    if schedule.asynchronous:
        use = choice.of(report.versions.uses)
        owner = f"microbatch {words.microbatch(use.microbatch, use.step)} on {words.names.stage(use.stage)}"
        return [
            Question(
                "Version k of a stage's weights is what k updates have made of them. Which version does the backward of "
                f"{owner} use?",
                f"Version {use.version}, the one that its forward used.",
            )
        ]
    steps = [position for position in range(schedule.num_ops) if schedule.op(position).kind is OpKind.STEP]
    last = last_to_end(report)
    if not steps or not last:
        return []
    first = min((position for position in steps if schedule.op(position).step == 0), key=lambda p: timeline.starts[p])
    rule = (
        "every backward of the step has to be done and reduced first"
        if schedule.joint_update
        else "it waits for the backwards of its own stage only"
    )
    at = words.time(timeline.starts[first])
    if schedule.joint_update:
        return [
            Question(
                "When is the earliest moment at which the optimizer may take its STEP, and which op ends last before it?",
                f"t={at}, after {words.ops(last)}: {rule}.",
            )
        ]
    return [Question("When does the first STEP of a stage run?", f"t={at}, {words.short(first)}: {rule}.")]


def _larger(report: Report, words: Words, choice: Choice) -> list[Question]:
    del report, choice
    own = words.schedule.num_microbatches
    grown = next((one.same_size for one in words.grown if one.microbatches == 2 * own), None)
    if grown is None:
        return []
    unit = grown.timeline.ticks_per_unit
    elapsed = time_text(grown.metrics["elapsed"].value.numerator, unit)
    fraction = grown.metrics["bubble_over_elapsed"]
    return [
        Question(
            f"The same with M = {2 * own} microbatches of the same size: how long does it take, and "
            "what is the idle fraction over the elapsed time?",
            f"{elapsed}; {ratio_text(fraction.value, unit)} (divided by {fraction.denominator}).",
        )
    ]


def hidden_ops(report: Report, words: Words, holes: frozenset[int]) -> Table:
    """The ops behind the holes, rank by rank in time order."""
    schedule, timeline = report.schedule, report.timeline
    rows = []
    for rank in range(schedule.num_ranks):
        found = [position for position in schedule.positions(rank) if position in holes]
        texts = [f"{words.short(p)} {words.during(timeline.starts[p], timeline.ends[p])}" for p in found]
        if texts:
            rows.append((words.row(rank), ", ".join(texts)))
    return Table("the hidden ops, and when they run", ("", "ops"), tuple(rows))


def order_lists(report: Report, words: Words) -> Table:
    """What every rank runs, in order, without times."""
    rows = [(words.row(rank), " ".join(map(words.block, order))) for rank, order in enumerate(report.work.order)]
    return Table("what runs in which order", ("", "ops"), tuple(rows))
