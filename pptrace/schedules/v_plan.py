"""The plan behind `v-half` and `v-min`: what runs in which tick of every rank, and how ops move in it.

How an order is made, in ticks of one op each (F, I and W alike):

1. every rank starts F, F, I, I of a microbatch at four fixed offsets, every 6 ticks a microbatch; W goes where nothing runs;
2. before and after the steady part, each op moves to the earliest free tick that its inputs allow and that does not
   raise the peak of the rank over the highest peak of all; then every op runs as soon as it can;
3. the W are taken out, the ops after the steady part are moved once more, and the W go where nothing runs again.

A rank's plan is kept as one byte a tick, so that "the earliest free tick" is a search for a zero byte. The file knows
nothing of schedules' names, claims and costs. Source of the steps: Qi et al. 2024, arXiv 2405.15362.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from itertools import accumulate, zip_longest
from typing import TYPE_CHECKING

from pptrace.model import OpKind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pptrace.model import Coder

PERIOD = 6
"""Ticks of a microbatch on a rank: F, I and W of two chunks."""

FREE, F_DOWN, F_UP, I_UP, I_DOWN, W = range(6)
"""What a tick of a plan holds; `down` is the chunk of stage r, `up` that of stage 2P-1-r."""

_HOLDS = (0, 1, 1, 0, 0, -1)
"""By what a tick holds: the change of the chunk activations on the rank (held until W)."""

Offsets = tuple[int, int, int, int]


def orders(offsets: Sequence[Offsets], coder: Coder, num: int) -> list[list[int]]:
    """The codes of every rank for `num` microbatches; `offsets` are the ticks at which each rank starts its F and I."""
    plan = Plan.repeating(offsets, num)
    plan.fill_w()
    plan.move_earlier(_Counted, warmup_too=True)
    plan = plan.squeezed()
    plan.take_out_w()
    plan.move_earlier(_Implied, warmup_too=False)
    plan.fill_w()
    plan = plan.squeezed()
    plan.take_out_w()
    last = 2 * len(offsets) - 1
    return [codes_with_w(row, coder, rank, last - rank) for rank, row in enumerate(plan.rows)]


class Plan:
    """One byte a tick for every rank. `times[rank][cell][m]` is the tick of what `cell` names, for microbatch m; for W, which
    is not told apart by microbatch, of the m-th."""

    def __init__(self, rows: list[bytearray], times: list[list[list[int]]]) -> None:
        self.rows = rows
        self.times = times

    @classmethod
    def repeating(cls, offsets: Sequence[Offsets], num: int) -> Plan:
        rows, times = [], []
        for starts in offsets:
            row = bytearray(max(starts) + PERIOD * (num - 1) + 1)
            for cell, start in enumerate(starts, F_DOWN):
                row[start : start + PERIOD * (num - 1) + 1 : PERIOD] = bytes([cell]) * num
            rows.append(row)
            times.append([[], *(list(range(start, start + PERIOD * num, PERIOD)) for start in starts), []])
        return cls(rows, times)

    def fill_w(self) -> None:
        """A W in every free tick after an I that has none yet; those that are left follow the last op."""
        for rank, row in enumerate(self.rows):
            del row[len(row.rstrip(b"\0")) :]
            pending = 0
            for tick, cell in enumerate(row):
                if cell >= I_UP:
                    pending += 1
                elif cell == FREE and pending:
                    row[tick] = W
                    pending -= 1
            row.extend(bytes([W]) * pending)
            self.times[rank][W] = [tick for tick, cell in enumerate(row) if cell == W]

    def take_out_w(self) -> None:
        for rank, row in enumerate(self.rows):
            self.rows[rank] = row.replace(bytes([W]), bytes([FREE])).rstrip(b"\0")
            self.times[rank][W] = []

    def squeezed(self) -> Plan:
        """The same order with every op as soon as its rank and its inputs allow."""
        num_ranks = len(self.rows)
        times: list[list[list[int]]] = [[[] for _ in range(W + 1)] for _ in range(num_ranks)]
        # The rank that sends what a cell waits for: forwards go down and then up, gradients the same way.
        senders = [
            [None, times[r - 1] if r else None, times[r + 1] if r + 1 < num_ranks else None] for r in range(num_ranks)
        ]
        for rank_senders in senders:
            rank_senders += [rank_senders[F_DOWN], rank_senders[F_UP], None]
        free = [0] * num_ranks
        for column in zip_longest(*self.rows, fillvalue=FREE):
            for rank, cell in enumerate(column):
                if cell:
                    at = free[rank]
                    placed = times[rank][cell]
                    sender = senders[rank][cell]
                    if sender is not None:
                        arrival = sender[cell][len(placed)] + 1
                        if arrival > at:
                            at = arrival
                    placed.append(at)
                    free[rank] = at + 1
        rows = [bytearray(end) for end in free]
        for row, by_cell in zip(rows, times, strict=True):
            for cell, ticks in enumerate(by_cell):
                for tick in ticks:
                    row[tick] = cell
        return Plan(rows, times)

    def move_earlier(self, memory_of: type[_Counted | _Implied], *, warmup_too: bool) -> None:
        """Move the ops after the steady part (and those before it) to earlier ticks, within the highest peak of all ranks.

        The steady part lasts from rank 0's first I of the way down to the first F of the last microbatch after that.
        """
        limit = max(memory_of(row).peak() for row in self.rows)
        steady_from = self.times[0][I_DOWN][0]
        last_forwards = [(times[F_DOWN][-1], rank) for rank, times in enumerate(self.times)]
        steady_until = min((place for place in last_forwards if place[0] >= steady_from), default=None)
        if warmup_too:
            self._move_range((0, 0), steady_from, memory_of, limit)
        if steady_until is not None:
            tick, rank = steady_until
            self._move_range((tick, rank + 1), max(map(len, self.rows)), memory_of, limit)

    def _move_range(self, start: tuple[int, int], stop: int, memory_of: type[_Counted | _Implied], limit: int) -> None:
        """Move what begins in [start, stop), tick by tick and rank by rank; `start` is (tick, first rank in that tick)."""
        first_tick, first_rank = start
        lanes = [
            _Lane(row, self.times[rank], first_tick + (rank < first_rank), memory_of(row, limit))
            for rank, row in enumerate(self.rows)
        ]
        for tick in range(first_tick, stop):
            for rank in range(first_rank if tick == first_tick else 0, len(lanes)):
                lane = lanes[rank]
                cell = lane.row[tick] if tick < len(lane.row) else FREE
                if not cell:
                    continue
                ready = lane.own_ready(cell)
                going_down = cell in (F_DOWN, I_UP)
                if cell != W and (rank > 0 if going_down else rank + 1 < len(lanes)):
                    sender = lanes[rank - 1 if going_down else rank + 1]
                    ready = max(ready, sender.times[cell][lane.counts[cell]])
                lane.place(cell, tick, ready + 1)


class _Lane:
    """One rank while its ops are moved: the row and times are the plan's, `counts[cell]` is how many have been placed."""

    def __init__(self, row: bytearray, times: list[list[int]], tick: int, memory: _Counted | _Implied) -> None:
        self.row = row
        self.times = times
        self.counts = [bisect_left(ticks, tick) for ticks in times]
        self.backwards = [t for t, cell in enumerate(row[:tick]) if cell in (I_UP, I_DOWN)]
        self.memory = memory

    def own_ready(self, cell: int) -> int:
        """The last tick on this rank that the next op of `cell` has to follow, -1 for none."""
        count = self.counts[cell]
        ready = self.times[cell][count - 1] if count else -1
        if cell == W:
            return max(ready, self.backwards[count])
        if cell > F_DOWN:
            return max(ready, self.times[cell - 1][count])
        return ready

    def place(self, cell: int, tick: int, earliest: int) -> None:
        """Move the next op of `cell` from `tick` to the first free tick from `earliest` on that memory allows."""
        at = self.memory.free_tick(cell, earliest, tick)
        if at < tick:
            self.row[tick] = FREE
            self.row[at] = cell
            self.times[cell][self.counts[cell]] = at
            self.memory.moved(cell, at, tick)
        self.counts[cell] += 1
        if cell in (I_UP, I_DOWN):
            insort(self.backwards, at)


class _Counted:
    """Chunk activations of a row whose W are in it: by tick, after the op of that tick."""

    def __init__(self, row: bytearray, limit: int = 0) -> None:
        self.row = row
        self.limit = limit
        self.held = list(accumulate(map(_HOLDS.__getitem__, row)))

    def peak(self) -> int:
        return max(self.held)

    def free_tick(self, cell: int, earliest: int, tick: int) -> int:
        """The first free tick in [earliest, tick) to which the op may move, else `tick`."""
        if cell in (F_DOWN, F_UP):  # holds one more from there on: not across a tick that is at the limit
            backwards = self.held[earliest:tick][::-1]
            if self.limit in backwards:
                earliest = tick - backwards.index(self.limit)
        found = self.row.find(FREE, earliest, tick)
        return tick if found < 0 else found

    def moved(self, cell: int, at: int, tick: int) -> None:
        change = _HOLDS[cell]
        if change:
            self.held[at:tick] = [held + change for held in self.held[at:tick]]


class _Implied:
    """The same for a row without W, as if every free tick ran a W that is due. `due` counts those, after each tick."""

    def __init__(self, row: bytearray, limit: int = 0) -> None:
        self.row = row
        self.limit = limit
        self.held = [0] * (len(row) + 1)  # the last entry is that before tick 0, found by index -1
        self.due = [0] * (len(row) + 1)
        self._run(0, len(row))

    def _run(self, start: int, least_stop: int) -> None:
        """Work out the ticks from `start` on, beyond `least_stop` until nothing changes any more."""
        held, due, row = self.held, self.due, self.row
        now_held, now_due = held[start - 1], due[start - 1]
        for tick in range(start, len(row)):
            cell = row[tick]
            if cell == FREE:
                if now_due:
                    now_due -= 1
                    now_held -= 1
            elif cell <= F_UP:
                now_held += 1
            else:
                now_due += 1
            if tick >= least_stop and held[tick] == now_held and due[tick] == now_due:
                break
            held[tick], due[tick] = now_held, now_due

    def peak(self) -> int:
        return max(self.held)

    def free_tick(self, cell: int, earliest: int, tick: int) -> int:
        """The first free tick in [earliest, tick) to which the op may move, else `tick`."""
        at = self.row.find(FREE, earliest, tick)
        while at >= 0 and not self._fits(cell, at, tick):
            at = self.row.find(FREE, at + 1, tick)
        return tick if at < 0 else at

    def _fits(self, cell: int, at: int, tick: int) -> bool:
        """Whether the peak stays within the limit with the op at `at` instead of `tick`; after `tick` it holds no more."""
        held, due = self.held[at - 1], self.due[at - 1]
        for now in (cell, *self.row[at + 1 : tick]):
            if now == FREE:
                if due:
                    due -= 1
                    held -= 1
            elif now <= F_UP:
                held += 1
                if held > self.limit:
                    return False
            else:
                due += 1
        return True

    def moved(self, cell: int, at: int, tick: int) -> None:
        self._run(at, tick + 1)


def codes_with_w(row: bytearray, coder: Coder, down: int, up: int) -> list[int]:
    """The codes of one rank: a W in every free tick where one is due, those of stage `up` first."""
    runs = [
        iter(coder.run(kind, stage))
        for kind, stage in ((OpKind.F, down), (OpKind.F, up), (OpKind.I, up), (OpKind.I, down))
    ]
    next_up, next_down = (coder.base(OpKind.W, stage) for stage in (up, down))
    due_up = due_down = 0
    order: list[int] = []
    for cell in row:
        if cell:
            order.append(next(runs[cell - 1]))
            if cell == I_UP:
                due_up += 1
            elif cell == I_DOWN:
                due_down += 1
        elif due_up:
            order.append(next_up)
            next_up += 1
            due_up -= 1
        elif due_down:
            order.append(next_down)
            next_down += 1
            due_down -= 1
    order += range(next_up, next_up + due_up)
    order += range(next_down, next_down + due_down)
    return order
