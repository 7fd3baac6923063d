"""A tiny engine that shares nothing with the library's: ops as tuples, exact fractions, quadratic, read in a minute.

It looks over all ranks again and again and runs whatever can run. `run` returns (start, end) by position, or None where it
gets stuck.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pptrace.costs import Costs, Values
    from pptrace.model import Op, Schedule

Times = dict[int, tuple[Fraction, Fraction]]


def run(schedule: Schedule, costs: Costs) -> Times | None:
    return _Run(schedule, costs).result()


class _Run:
    def __init__(self, schedule: Schedule, costs: Costs) -> None:
        self.schedule, self.costs = schedule, costs
        self.place = schedule.placement
        self.ops = [schedule.op(position) for position in range(schedule.num_ops)]
        self.at = {self._key(op): position for position, op in enumerate(self.ops)}
        self.rank = [schedule.rank_at(position) for position in range(schedule.num_ops)]
        self.times: Times = {}
        self.link_free: dict[tuple[int, int], Fraction] = {}
        self.arrived: dict[tuple[int, int], Fraction] = {}  # (producer, consumer) to time

    def _key(self, op: Op) -> tuple[str, int, int, int]:
        return op.kind.name, op.stage, op.microbatch or 0, op.step

    def result(self) -> Times | None:
        todo = {rank: list(self.schedule.positions(rank)) for rank in range(self.schedule.num_ranks)}
        free = dict.fromkeys(todo, Fraction(0))
        while any(todo.values()):
            moved = False
            for rank, left in todo.items():
                if not left:
                    continue
                joined = left[0] in self.schedule.pairs and self.costs.overlap != "split"
                block = left[:2] if joined else left[:1]
                ready = [self._ready(position, set(block)) for position in block]
                if None in ready:
                    continue
                start = max([free[rank], *(time for time in ready if time is not None)])
                end = start + self._length(block, rank)
                for position in block:
                    self.times[position] = (start, end)
                    self._send(position)
                free[rank] = end
                del left[: len(block)]
                moved = True
            if not moved:
                return None
        return self.times

    def _waits(self, op: Op) -> list[tuple[str, int, int, int]]:
        """Keys of what `op` waits for; a list of alternatives is resolved here to the one that exists."""
        kind, stage, number, step = self._key(op)
        last = self.schedule.num_stages - 1

        def first_that_exists(*kinds: str, of: int) -> tuple[str, int, int, int]:
            for name in kinds:
                if (name, of, number, step) in self.at:
                    return name, of, number, step
            return kinds[0], of, number, step

        gradient = [first_that_exists("I", "B", of=stage + 1)] if stage < last else []
        if kind == "F":
            return [("F", stage - 1, number, step)] if stage else []
        if kind in "BI":
            return [first_that_exists("R", "F", of=stage), *gradient]
        if kind == "R":
            return [("F", stage, number, step), *([] if self.schedule.early_recompute else gradient)]
        if kind == "W":
            return [("I", stage, number, step)]
        if self.schedule.asynchronous:
            return []
        if kind == "REDUCE":
            return [key for key in self.at if key[0] in "BW" and key[1] == stage and key[3] == step]
        if not self.schedule.joint_update:
            return [("REDUCE", stage, number, step)]  # that of its own copy
        return [key for key in self.at if key[0] == "REDUCE" and key[3] == step]

    def _ready(self, position: int, block: set[int]) -> Fraction | None:
        latest = Fraction(0)
        for key in self._waits(self.ops[position]):
            producer = self.at[key]
            if producer not in self.times or producer in block:
                return None
            latest = max(latest, self.arrived.get((producer, position), self.times[producer][1]))
        return latest

    def _send(self, producer: int) -> None:
        """Put the output of `producer` on its way; it may be needed by several ops of one rank (R and B)."""
        op, end = self.ops[producer], self.times[producer][1]
        if op.kind.name not in "FBI":
            return
        wanted = {
            position: self.rank[position]
            for position, other in enumerate(self.ops)
            if other.stage != op.stage and self._key(op) in self._waits(other) and other.kind.name in "FBIR"
        }
        if not wanted:
            return
        receiver = next(iter(wanted.values()))
        travel = self._latency(producer, receiver, min(op.stage, self.ops[next(iter(wanted))].stage))
        departure = end
        if travel and self.costs.link == "serial":
            departure = max(end, self.link_free.get((self.rank[producer], receiver), Fraction(0)))
            self.link_free[self.rank[producer], receiver] = departure + travel
        for position in wanted:
            self.arrived[producer, position] = departure + travel

    def _latency(self, producer: int, receiver: int, lower_stage: int) -> Fraction:
        sender, comm = self.rank[producer], self.costs.comm
        if sender == receiver:
            return Fraction(0)
        if len(comm) == 1:
            return comm[0]
        if self.place.kind == "loop" and lower_stage % self.place.num_ranks == self.place.num_ranks - 1:
            return comm[-1]
        return comm[min(sender, receiver)]

    def _length(self, block: list[int], rank: int) -> Fraction:
        alone = [self._alone(self.ops[position], rank) for position in block]
        if len(block) == 1:
            return alone[0]
        if self.costs.overlap == "max":
            return max(alone)
        if self.costs.overlap == "sum":
            return sum(alone)
        held = self._held(rank) if self.costs.forward.per == "rank" else 1
        return Fraction(self.costs.overlap) / held

    def _held(self, rank: int) -> int:
        return 1 if self.place.bidirectional else self.place.ranks.count(rank)

    def _alone(self, op: Op, rank: int) -> Fraction:
        def one(value: Values) -> Fraction:
            index = (op.stage if value.per == "stage" else rank) if len(value.numbers) > 1 else 0
            return value.numbers[index] / (self._held(rank) if value.per == "rank" else 1)

        costs = self.costs
        if op.kind.name in ("REDUCE", "STEP"):
            return (costs.reduce if op.kind.name == "REDUCE" else costs.step_time) / self._held(rank)
        time = {
            "F": one(costs.forward),
            "R": one(costs.forward),
            "B": one(costs.backward),
            "I": one(costs.backward) - one(costs.weight_grad),
            "W": one(costs.weight_grad),
        }[op.kind.name]
        return time * (costs.microbatch_scale[op.microbatch or 0] if costs.microbatch_scale else 1)
