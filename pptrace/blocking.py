"""The engine for blocking messages (`--comm-mode blocking`): a message takes time on both of its ranks.

Between two ops of its list a rank is in a gap. Due in the gap are the sends of the op before it and the receives of the op
after it. A message goes as soon as it is due on both ranks and neither is in another message; it then holds both for c,
and the op after the gap starts when nothing is due any more. Two opposite messages that are due between the same two
ranks are one exchange, which takes c. Where a rank could send and receive at the same instant it sends. A rank
whose message is not due at the other end waits, also where c is 0. What is not about messages (order, durations,
overlapped pairs, boundaries) is as in `timeline`.
"""

from __future__ import annotations

from array import array
from heapq import heappop, heappush
from itertools import pairwise
from operator import sub
from typing import TYPE_CHECKING, NamedTuple

from pptrace.deadlock import DeadlockError, Wait, cycle_of
from pptrace.dependencies import GATHER

if TYPE_CHECKING:
    from pptrace.costs import Costs
    from pptrace.dependencies import Dependencies
    from pptrace.durations import Durations
    from pptrace.model import Schedule


def run_blocking(
    schedule: Schedule, deps: Dependencies, timing: Durations, costs: Costs
) -> tuple[array[int], array[int], array[int], dict[int, int]]:
    """The starts and ends of all ops, when each message arrived, and when it left where that was later than its op's end, in
    ticks by position. Raises `DeadlockError` where no rank can move although ops or messages are left."""
    run = _Run(schedule, deps, timing.ticks, timing.latencies, split_pairs=costs.overlap == "split")
    run.run()
    starts = array("q", list(map(sub, run.ends, timing.ticks)))  # from a list: twice as fast as from an iterator
    return starts, run.ends, run.arrivals, run.departures


class _Due(NamedTuple):
    """A message in a gap: the op that makes it, the op that takes it, the rank at the other end."""

    producer: int
    consumer: int
    peer: int
    is_send: bool


class _Run:
    """One run, rank by rank in the order of time."""

    def __init__(
        self, schedule: Schedule, deps: Dependencies, ticks: list[int], travel: list[int] | None, *, split_pairs: bool
    ) -> None:
        self.schedule = schedule
        self.deps = deps
        self.ticks = ticks
        self.travel = travel
        self.pairs = frozenset() if split_pairs else schedule.pairs
        self.ends = array("q", [-1]) * schedule.num_ops
        self.arrivals = array("q", [-1]) * schedule.num_ops
        self.departures: dict[int, int] = {}
        self._owner = [rank for rank in range(schedule.num_ranks) for _ in schedule.positions(rank)]
        self._consumers, self._receives = self._messages()
        self._next = list(schedule.rank_starts[:-1])
        self._due = [self._due_before(rank, []) for rank in range(schedule.num_ranks)]
        self._waiters: dict[int, list[int]] = {}  # by op: ranks whose next op is in a group with it
        self._free = [True] * schedule.num_ranks
        self._busy_until = [0] * schedule.num_ranks
        self._queue: list[tuple[int, int]] = [(0, rank) for rank in range(schedule.num_ranks)]

    def run(self) -> None:
        queue = self._queue
        while queue:
            now = queue[0][0]
            freed = []
            while queue and queue[0][0] == now:
                freed.append(heappop(queue)[1])
            freed = [rank for rank in dict.fromkeys(freed) if self._busy_until[rank] <= now]
            for rank in freed:
                self._free[rank] = True
            for rank in freed:
                self._start_messages(rank, now)
            for rank in freed:
                if self._free[rank] and not self._due[rank]:
                    self._start_op(rank, now)
        stuck = [
            rank for rank, at in enumerate(self._next) if self._due[rank] or at < self.schedule.rank_starts[rank + 1]
        ]
        if stuck:
            raise self._deadlock(stuck)

    def _messages(self) -> tuple[dict[int, int], dict[int, int]]:
        """Consumer by producer and producer by consumer, for what goes to another rank (once, to its first taker)."""
        consumers: dict[int, int] = {}
        receives: dict[int, int] = {}
        for position, producer in enumerate(self.deps.inputs):
            if producer >= 0 and self._owner[producer] != self._owner[position] and producer not in consumers:
                consumers[producer] = position
                receives[position] = producer
        return consumers, receives

    def _block(self, position: int) -> tuple[int, ...]:
        return (position, position + 1) if position in self.pairs else (position,)

    def _due_before(self, rank: int, finished: list[int] | tuple[int, ...]) -> list[_Due]:
        """What is due between the ops that have just `finished` and the next of `rank`."""
        due = []
        for producer in finished:
            consumer = self._consumers.get(producer)
            if consumer is not None:
                due.append(_Due(producer, consumer, self._owner[consumer], True))
        position = self._next[rank]
        if position < self.schedule.rank_starts[rank + 1]:
            for consumer in self._block(position):
                producer = self._receives.get(consumer, -1)
                if producer >= 0:
                    due.append(_Due(producer, consumer, self._owner[producer], False))
        return due

    def _start_messages(self, rank: int, now: int) -> None:
        """Start what can go at this instant because `rank` has become free: the sends along the chain that begins with its
        own, the last of them first, and then what `rank` can receive."""
        chain: list[int] = [rank]
        while (after := self._receiver(chain[-1])) >= 0:
            chain.append(after)
            if after in chain[:-1]:
                break
        for sender, receiver in reversed(list(pairwise(chain))):
            if self._free[sender] and self._free[receiver]:
                self._exchange(sender, receiver, now)
        if self._free[rank]:
            peer = next((m.peer for m in self._due[rank] if not m.is_send and self._is_due_at(m.peer, m.producer)), -1)
            if peer >= 0:
                self._exchange(rank, peer, now)

    def _receiver(self, rank: int) -> int:
        """The rank that `rank` can send to now, or -1."""
        if not self._free[rank]:
            return -1
        sends = (m.peer for m in self._due[rank] if m.is_send and self._is_due_at(m.peer, m.producer))
        return next(sends, -1)

    def _is_due_at(self, rank: int, producer: int) -> bool:
        return self._free[rank] and any(message.producer == producer for message in self._due[rank])

    def _start_op(self, rank: int, now: int) -> None:
        """Start the next op of a free rank, if it waits for nothing but messages."""
        position = self._next[rank]
        if position >= self.schedule.rank_starts[rank + 1]:
            return
        block = self._block(position)
        for p in block:
            awaited = self._unfinished(p, now)
            if awaited >= 0:
                self._waiters.setdefault(awaited, []).append(rank)
                return
        end = now + self.ticks[position]
        for p in block:
            self.ends[p] = self.arrivals[p] = end
        self._next[rank] = position + len(block)
        self._due[rank] = self._due_before(rank, block)
        self._hold(rank, end)
        for p in block:
            for waiter in self._waiters.pop(p, ()):
                heappush(self._queue, (end, waiter))

    def _hold(self, rank: int, until: int) -> None:
        self._free[rank] = False
        self._busy_until[rank] = until
        heappush(self._queue, (until, rank))

    def _unfinished(self, position: int, now: int) -> int:
        """An op that `position` waits for, without a message, and that is not done by `now`; -1 where there is none."""
        awaited = self.deps.inputs[position]
        group = self.deps.gathers[position] if awaited == GATHER else (awaited,)
        for producer in group:
            crosses = awaited != GATHER and producer >= 0 and self._owner[producer] != self._owner[position]
            if producer >= 0 and not crosses and (self.ends[producer] < 0 or self.ends[producer] > now):
                if self.ends[producer] > now:
                    heappush(self._queue, (self.ends[producer], self._owner[position]))
                return producer
        return -1

    def _exchange(self, rank: int, peer: int, now: int) -> None:
        """Start every message that is due between two free ranks: one, or one each way; of several the same way, the first."""
        started: dict[bool, _Due] = {}
        theirs = {message.producer for message in self._due[peer]}
        for message in self._due[rank]:
            if message.peer == peer and message.producer in theirs:
                started.setdefault(message.is_send, message)
        length = 0
        for message in started.values():
            length = max(length, self.travel[message.producer] if self.travel else 0)
        done = {message.producer for message in started.values()}
        for producer in done:
            if now > self.ends[producer]:
                self.departures[producer] = now
            self.arrivals[producer] = now + length
        for side in (rank, peer):
            self._due[side] = [message for message in self._due[side] if message.producer not in done]
            self._hold(side, now + length)

    def _deadlock(self, stuck: list[int]) -> DeadlockError:
        schedule = self.schedule
        waits: dict[int, Wait] = {}
        next_ops = {}
        for rank in stuck:
            if self._due[rank]:
                message = self._due[rank][0]
                own, awaited = message.consumer, message.producer
                if message.is_send:
                    own, awaited = awaited, own
            else:
                own = self._next[rank]
                awaited = next(p for p in self._awaited(own) if p >= 0 and self.ends[p] < 0)
            waits[rank] = Wait(rank, schedule.op(own), self._owner[awaited], schedule.op(awaited))
            next_ops[rank] = schedule.op(own)
        cycle = cycle_of({rank: wait.awaited_rank for rank, wait in waits.items()})
        remedy = "each message waits until the other rank is at it; order the ops so, or use --comm-mode latency"
        return DeadlockError([waits[rank] for rank in cycle], next_ops, remedy)

    def _awaited(self, position: int) -> tuple[int, ...]:
        return tuple(p for own in self._block(position) for p in self.deps.after(own))
