"""Weight versions: which one every op uses, how many a rank keeps, how old they are when their gradient is applied.

Version k of a stage's weights is what k updates have made of them, separately for every copy of a stage. A flush keeps one:
all ops of step t use version t. Without a flush,

    pipedream       F uses the newest version of its stage; B (I, W, R) of the microbatch uses that same one
    pipedream-2bw   every op of the t-th M microbatches uses version max(t-1, 0), on all stages alike

What the versions weigh in bytes is bytes_held.py's, who may use which one the checker's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pptrace.model import OpKind

if TYPE_CHECKING:
    from pptrace.timeline import Timeline

DOUBLE_BUFFERED = "pipedream-2bw"
"""The schedule whose ops use the version before the newest; its order alone does not tell."""

NO_VERSION = -1
"""REDUCE and STEP use no version of their own: they make one."""


class VersionUse(NamedTuple):
    """The version that all ops of (stage, microbatch, step) use, and how many updates older it is than the weights that
    their gradient is added to (0 under a flush; None where there is no backward)."""

    stage: int
    microbatch: int
    step: int
    rank: int
    version: int
    staleness: int | None


class Stash(NamedTuple):
    """The versions of one stage that one rank keeps: change points (tick, how many from then on), the most, and since when.

    A version is kept from the end of the update that makes it until the end of the update that replaces it, or the end
    of the last op that uses it, whichever is later; the newest to the end. Releases come before allocations.
    """

    rank: int
    stage: int
    held: tuple[tuple[int, int], ...]
    peak: int
    at: int


class WeightVersions(NamedTuple):
    """`by_position` is the version of every op (NO_VERSION for REDUCE and STEP); `uses` are in the order of the ranks' F;
    `stashes` are by rank, then stage; `peaks` and `staleness` are the largest of every rank."""

    by_position: list[int]
    uses: list[VersionUse]
    stashes: tuple[Stash, ...]
    peaks: tuple[int, ...]
    staleness: tuple[int, ...]

    def held(self, rank: int) -> tuple[tuple[int, int], ...]:
        """How many versions of a stage `rank` keeps over time, (tick, count) wherever it changes; of several stages, the
        most."""
        curves = [stash.held for stash in self.stashes if stash.rank == rank]
        counts = [0] * len(curves)
        levels: list[tuple[int, int]] = []
        for tick, index, count in sorted((tick, i, n) for i, curve in enumerate(curves) for tick, n in curve):
            counts[index] = count
            if levels and levels[-1][0] == tick:
                levels.pop()
            if not levels or levels[-1][1] != max(counts):
                levels.append((tick, max(counts)))
        return tuple(levels)


def weight_versions(timeline: Timeline) -> WeightVersions:
    """The weight versions of any timeline, in time linear in its ops (but for sorting the updates of a stage)."""
    schedule = timeline.schedule
    by_position = [NO_VERSION] * schedule.num_ops
    uses: list[VersionUse] = []
    stashes: list[Stash] = []
    for rank in range(schedule.num_ranks):
        lane = _Lane(timeline, rank)
        lane.walk(by_position)
        uses += lane.uses()
        stashes += lane.stashes()
    peaks, staleness = [1] * schedule.num_ranks, [0] * schedule.num_ranks
    for stash in stashes:
        peaks[stash.rank] = max(peaks[stash.rank], stash.peak)
    for use in uses:
        staleness[use.rank] = max(staleness[use.rank], use.staleness or 0)
    return WeightVersions(by_position, uses, tuple(stashes), tuple(peaks), tuple(staleness))


class _Lane:
    """One rank's list, walked once."""

    def __init__(self, timeline: Timeline, rank: int) -> None:
        self.timeline = timeline
        self.schedule = timeline.schedule
        self.rank = rank
        stages = self.schedule.placement.stages(rank)
        self.update_ends: dict[int, list[int]] = {stage: [] for stage in stages}
        self.last_use: dict[int, dict[int, int]] = {stage: {} for stage in stages}  # by version: the latest end
        self.used: dict[tuple[int, int], int] = {}  # by (stage, microbatch of all steps): version
        self.applied: dict[tuple[int, int], int] = {}  # the same: how many updates were before its own

    def walk(self, by_position: list[int]) -> None:
        """Find the version of every op, and what `uses` and `stashes` need."""
        schedule, ends = self.schedule, self.timeline.ends
        width, num_stages = schedule.num_microbatches * schedule.num_steps, schedule.num_stages
        for position in schedule.positions(self.rank):
            row, number = divmod(schedule.codes[position], width)
            kind, stage = divmod(row, num_stages)
            updates = self.update_ends.setdefault(stage, [])
            if kind == OpKind.STEP:
                updates.append(ends[position])
            elif kind != OpKind.REDUCE:
                owner = (stage, number)
                version = self.used.get(owner)
                if version is None:
                    version = self.used[owner] = self._version(number, len(updates))
                by_position[position] = version
                last = self.last_use.setdefault(stage, {})
                last[version] = max(last.get(version, 0), ends[position])
                if kind in (OpKind.B, OpKind.W):
                    self.applied[owner] = len(updates)

    def _version(self, number: int, num_updates: int) -> int:
        """What the first op of a microbatch uses: `number` counts over all steps, `num_updates` have come before it."""
        step = number // self.schedule.num_microbatches
        if not self.schedule.asynchronous:
            return step
        return max(step - 1, 0) if self.schedule.name == DOUBLE_BUFFERED else num_updates

    def uses(self) -> list[VersionUse]:
        num = self.schedule.num_microbatches
        found = []
        for (stage, number), version in self.used.items():
            step, microbatch = divmod(number, num)
            staleness = None
            if (stage, number) in self.applied:
                staleness = self.applied[stage, number] - version if self.schedule.asynchronous else 0
            found.append(VersionUse(stage, microbatch, step, self.rank, version, staleness))
        return found

    def stashes(self) -> list[Stash]:
        first = min(self.timeline.starts, default=0)
        result = []
        for stage, updates in sorted(self.update_ends.items()):
            uses = self.last_use.get(stage, {})
            changes = [(tick, 1) for tick in (first, *updates)]
            changes += [(max(end, uses.get(version, 0)), -1) for version, end in enumerate(updates)]
            held = _levels(changes)
            peak = max(count for _, count in held)
            at = next(tick for tick, count in held if count == peak)
            result.append(Stash(self.rank, stage, held, peak, at))
        return result


def _levels(changes: list[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """(tick, count) wherever the count changes."""
    levels: list[tuple[int, int]] = []
    count = 0
    for tick, change in sorted(changes):
        count += change
        if levels and levels[-1][0] == tick:
            levels.pop()
        if not levels or levels[-1][1] != count:
            levels.append((tick, count))
    return tuple(levels)
