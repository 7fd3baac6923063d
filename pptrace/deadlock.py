"""Deadlock as a value: the waits that close on each other, and the error that carries them. Who finds one is the engines'
and the checker's."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pptrace.errors import PptraceError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pptrace.model import Op


class Wait:
    """One link of a deadlock: `op` (the next op of `rank`) waits for `awaited`, which is still in `awaited_rank`'s list."""

    __slots__ = ("awaited", "awaited_rank", "op", "rank")

    def __init__(self, rank: int, op: Op, awaited_rank: int, awaited: Op) -> None:
        self.rank = rank
        self.op = op
        self.awaited_rank = awaited_rank
        self.awaited = awaited

    def __repr__(self) -> str:
        return f"Wait(rank {self.rank}: {self.op} waits for {self.awaited} of rank {self.awaited_rank})"

    def sentence(self) -> str:
        if self.rank == self.awaited_rank:
            return f"rank {self.rank}: {self.op} waits for {self.awaited}, which comes later in the same list"
        return f"rank {self.rank}: {self.op} waits for {self.awaited} of rank {self.awaited_rank}"


def cycle_of(awaited: dict[int, int]) -> list[int]:
    """The ranks that wait for each other, each for the next, the lowest first: `awaited` says of every rank that waits for
    which other one it does, and that one is in it too."""
    rank = min(awaited)
    seen: list[int] = []
    while rank not in seen:
        seen.append(rank)
        rank = awaited[rank]
    cycle = seen[seen.index(rank) :]
    first = cycle.index(min(cycle))
    return cycle[first:] + cycle[:first]


class DeadlockError(PptraceError):
    """No rank can move although ops are left.

    `cycle` holds the waits that close on each other, in order: the rank of each one's awaited op is the rank of the
    next. `next_ops` maps every rank that is not finished to the op it is stuck at.
    """

    is_answer = True

    def __init__(self, cycle: Sequence[Wait], next_ops: dict[int, Op], remedy: str = "") -> None:
        self.cycle = tuple(cycle)
        self.next_ops = next_ops
        self.remedy = remedy
        waits = "; ".join(wait.sentence() for wait in cycle)
        super().__init__(f"deadlock: {waits}" + (f"; {remedy}" if remedy else ""))
