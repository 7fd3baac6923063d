"""What an order is called: the registered schedules that it equals, or the nearest one and where it parts from it. An order
is named by what it is, not by what its file is called. It compares orders; times do not matter."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pptrace.analysis.difference import compute_codes, order_differences
from pptrace.errors import PptraceError
from pptrace.model import OpKind
from pptrace.schedules.registry import DEFAULT_MAX_OPS, Params, build, entry, names
from pptrace.schedules.transforms import recompute, split_backward
from pptrace.schedules.updates import with_updates

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pptrace.analysis.difference import RankDifference
    from pptrace.model import Schedule
    from pptrace.schedules.registry import Entry


MOST_OPS = 20_000
"""Longer orders are not compared with all that is registered where nobody asked for it: it takes a second and more."""


class Candidate(NamedTuple):
    """A registered schedule with the choices that make an order, sizes left out: `interleaved` with v=2 group=5."""

    name: str
    choices: tuple[tuple[str, str], ...] = ()

    def __str__(self) -> str:
        """As the command line takes it: `interleaved,v=2,group=5`."""
        return ",".join([self.name, *(f"{key}={value}" if value else key for key, value in self.choices)])


class Recognition(NamedTuple):
    """`equal` are all schedules with exactly this order. Where there is none, `nearest` is the one that shares most ops at the
    beginnings and ends of its lists (None where no registered schedule has this placement), `shared` of the `total` ops of
    the longer of the two, and `differences` are the first ones, rank by rank."""

    equal: tuple[Candidate, ...]
    nearest: Candidate | None = None
    differences: tuple[RankDifference, ...] = ()
    shared: int = 0
    total: int = 0

    def sentence(self) -> str:
        """One line: what the order is, or what it is nearest to and where it first differs."""
        if self.equal:
            return f"this is the order of {', '.join(map(str, self.equal))}"
        if self.nearest is None:
            return "no registered schedule places its stages and splits its backwards like this"
        where = self.differences[0].sentence("this order", str(self.nearest))
        return (
            f"the nearest registered order is {self.nearest} ({self.shared} of {self.total} ops agree); first: {where}"
        )


def recognize(schedule: Schedule) -> Recognition:
    """Compare with every registered schedule of the same sizes, placement and kinds of op, with the groups and orders that
    they take. Linear in the ops for each of them; REDUCE and STEP do not count."""
    equal: dict[str, Candidate] = {}
    for candidate, built in _candidates(schedule):
        if candidate.name not in equal and not order_differences(schedule, built):
            equal[candidate.name] = candidate
    ours = [compute_codes(schedule, rank) for rank in range(schedule.num_ranks)]
    total = sum(map(len, ours))
    if equal:
        return Recognition(tuple(equal.values()), total=total)
    # Made once more, because keeping all of them in case none is equal would take many times the memory.
    best: tuple[int, Candidate, Schedule] | None = None
    for candidate, built in _candidates(schedule):
        shared = sum(_shared(own, compute_codes(built, rank)) for rank, own in enumerate(ours))
        if best is None or shared > best[0]:
            best = shared, candidate, built
    if best is None:
        return Recognition((), total=total)
    shared, nearest, built = best
    longer = max(total, sum(len(compute_codes(built, rank)) for rank in range(built.num_ranks)))
    return Recognition((), nearest, order_differences(schedule, built), shared, longer)


def _candidates(schedule: Schedule) -> Iterator[tuple[Candidate, Schedule]]:
    """Registered schedules that could be this one, built to its sizes, and transformed as it is."""
    kinds = schedule.kinds()
    splits = OpKind.I in kinds or bool(schedule.pairs)
    stages_per_rank, rest = divmod(schedule.num_stages, schedule.num_ranks)
    if rest:
        return
    limit = max(DEFAULT_MAX_OPS, 4 * schedule.num_ops)
    for name in names():
        found = entry(name)
        if found.splits and not splits:
            continue
        takes_chunks = "chunks" in found.options
        if not takes_chunks and stages_per_rank != found.default_chunks and not schedule.placement.bidirectional:
            continue
        for params, choices in _parameters(schedule, found, stages_per_rank):
            try:
                built = build(name, params, max_ops=limit)
                if splits and not found.splits:
                    built = split_backward(built)
                    choices = [*choices, ("split-backward", "")]
                if OpKind.R in kinds:
                    kind = "early" if schedule.early_recompute else "full"
                    built = recompute(built, early=schedule.early_recompute)
                    choices = [*choices, ("recompute", kind)]
                if schedule.num_steps > 1 and not built.asynchronous:
                    built = with_updates(built, schedule.num_steps, max_ops=limit)
            except PptraceError:  # sizes that it does not take
                continue
            if built.placement == schedule.placement:
                yield Candidate(name, tuple(choices)), built


def _parameters(
    schedule: Schedule, found: Entry, stages_per_rank: int
) -> Iterator[tuple[Params, list[tuple[str, str]]]]:
    """The parameters worth trying, with those that are no defaults as text; the defaults come first."""
    plain = Params(schedule.num_ranks, schedule.num_microbatches, num_steps=schedule.num_steps)
    choices: list[tuple[str, str]] = []
    if "chunks" in found.options and stages_per_rank != found.default_chunks:
        plain = plain._replace(num_chunks=stages_per_rank)
        choices = [("v", str(stages_per_rank))]
    yield plain, choices
    if "group" in found.options:
        group = _first_group(schedule)
        yield plain._replace(group=group), [*choices, ("group", str(group))]
    if "order" in found.options:
        yield plain._replace(order="lifo"), [*choices, ("order", "lifo")]


def _first_group(schedule: Schedule) -> int:
    """How many microbatches the first rank runs of its first chunk before it goes to the next: the group, if there are any."""
    stage_of_first = None
    for count, position in enumerate(schedule.positions(0)):
        op = schedule.op(position)
        if stage_of_first is None:
            stage_of_first = op.stage
        if op.kind is not OpKind.F or op.stage != stage_of_first:
            return max(count, 1)
    return schedule.num_microbatches


def _shared(ours: Sequence[int], theirs: Sequence[int]) -> int:
    """How many ops two lists share at their beginnings and, after where they part, at their ends."""
    shorter = min(len(ours), len(theirs))
    start = 0
    while start < shorter and ours[start] == theirs[start]:
        start += 1
    end = 0
    while end < shorter - start and ours[-1 - end] == theirs[-1 - end]:
        end += 1
    return start + end
