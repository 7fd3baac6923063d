"""The nouns: kinds of op, ops and their text form, placement, schedule. No times, no costs, no input or output.

A schedule is kept as one flat array of integers, because everything above it has to be linear and fast: the position of
an op in that array is its identity everywhere (dependencies, starts, ends, lifetimes are arrays by position). `Op` is the
readable view of one position.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from enum import IntEnum
from typing import TYPE_CHECKING, Any, NamedTuple

from pptrace.errors import ParameterError, ScheduleError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence


class OpKind(IntEnum):
    """What an op does. The first seven are scheduled by the engine; the rest appear in lowered framework files only."""

    F = 0  # forward
    B = 1  # FULL backward, always: B = I + W
    I = 2  # backward for the input  # noqa: E741  (the field's letter)
    W = 3  # backward for the weights, any time after I
    R = 4  # recomputation of a forward before its backward
    REDUCE = 5  # gradient reduction of one stage at the accumulation boundary
    STEP = 6  # optimizer step of one stage
    SEND_F = 7
    RECV_F = 8
    SEND_B = 9
    RECV_B = 10
    UNSHARD = 11
    RESHARD = 12
    REDUCE_GRAD = 13

    def __str__(self) -> str:
        return self.name


NUM_ENGINE_KINDS = 7
COMPUTE_KINDS = (OpKind.F, OpKind.B, OpKind.I, OpKind.W, OpKind.R)
"""Kinds that count as work: elapsed, spans, idle and busy are made of these only."""
BACKWARD_KINDS = (OpKind.B, OpKind.I)
BOUNDARY_KINDS = (OpKind.REDUCE, OpKind.STEP)
MESSAGE_KINDS = (OpKind.SEND_F, OpKind.RECV_F, OpKind.SEND_B, OpKind.RECV_B)
KINDS_WITHOUT_MICROBATCH = frozenset({OpKind.UNSHARD, OpKind.RESHARD, OpKind.REDUCE_GRAD})

_OP_TEXT = re.compile(r"(\d{1,9})([A-Z_]+?)(\d{1,9})?(?:@(\d{1,9}))?", re.ASCII)


class Op(NamedTuple):
    """One unit of work, written as PyTorch writes it: stage, kind, microbatch (`2F0`); `@k` follows in optimizer step k > 0.

    REDUCE and STEP carry a microbatch only where a stage has several of them in one step: the first microbatch of the
    copy that they belong to (two-way placements), or the microbatch after which they come (schedules without a flush).
    """

    stage: int
    kind: OpKind
    microbatch: int | None
    step: int = 0

    def __str__(self) -> str:
        number = "" if self.microbatch is None else self.microbatch
        return f"{self.stage}{self.kind.name}{number}" + (f"@{self.step}" if self.step else "")

    @classmethod
    def parse(cls, text: str) -> Op:
        """The inverse of `str(op)`. Raises `ScheduleError` where the text is not an op."""
        match = _OP_TEXT.fullmatch(text)
        kind = OpKind.__members__.get(match[2]) if match else None
        if match is None or kind is None:
            message = f"{text[:40]!r} is not an op; an op is stage, kind, microbatch, for example 2F0"
            raise ScheduleError(message)
        if kind not in BOUNDARY_KINDS and (match[3] is None) != (kind in KINDS_WITHOUT_MICROBATCH):
            needs = "takes no" if match[3] else "needs a"
            message = f"{text[:40]!r}: {kind.name} {needs} microbatch number"
            raise ScheduleError(message)
        microbatch = None if match[3] is None else int(match[3])
        return cls(int(match[1]), kind, microbatch, int(match[4] or 0))


class Placement:
    """Which rank holds which stage.

    `ranks[s]` is the rank of stage s. With `bidirectional` there are two copies of every stage: microbatches of the first
    half of a step run on `ranks[s]`, the others on `ranks[S-1-s]`.
    """

    __slots__ = ("_stages", "bidirectional", "kind", "num_ranks", "ranks")

    def __init__(self, kind: str, ranks: Sequence[int], num_ranks: int, *, bidirectional: bool = False) -> None:
        self.kind = kind
        self.ranks = tuple(ranks)
        self.num_ranks = num_ranks
        self.bidirectional = bidirectional
        stages: list[list[int]] = [[] for _ in range(num_ranks)]
        for stage, rank in enumerate(self.ranks):
            stages[rank].append(stage)
            if bidirectional:
                stages[len(self.ranks) - 1 - rank].append(stage)
        self._stages = tuple(tuple(sorted(set(held))) for held in stages)

    @classmethod
    def loop(cls, num_ranks: int, num_chunks: int = 1) -> Placement:
        """Stage s on rank s mod P."""
        return cls("loop", [s % num_ranks for s in range(num_ranks * num_chunks)], num_ranks)

    @classmethod
    def zigzag(cls, num_ranks: int, num_chunks: int = 2) -> Placement:
        """The V placement: down the ranks, then up, then down again (stage P is on the rank of stage P-1)."""
        down = list(range(num_ranks))
        turns = (down if chunk % 2 == 0 else down[::-1] for chunk in range(num_chunks))
        return cls("v", [rank for turn in turns for rank in turn], num_ranks)

    @classmethod
    def two_way(cls, num_ranks: int) -> Placement:
        """Two copies of every stage: rank r holds stage r (going down) and stage P-1-r (going up)."""
        return cls("bidirectional", range(num_ranks), num_ranks, bidirectional=True)

    @property
    def num_stages(self) -> int:
        return len(self.ranks)

    def stages(self, rank: int) -> tuple[int, ...]:
        """The stages that live on `rank`, ascending."""
        return self._stages[rank]

    def stages_per_rank(self, rank: int) -> int:
        """What a per-rank cost is divided by (DESIGN: in bidirectional placement an op takes the value itself)."""
        return 1 if self.bidirectional else len(self._stages[rank])

    def goes_up(self, microbatch: int, num_microbatches: int) -> bool:
        """Whether a microbatch (numbered within its step) runs on the copy that goes up; never in one-way placements."""
        return self.bidirectional and microbatch >= (num_microbatches + 1) // 2

    def rank_of(self, stage: int, microbatch: int = 0, num_microbatches: int = 1) -> int:
        """The rank that runs (stage, microbatch)."""
        if self.goes_up(microbatch, num_microbatches):
            return self.ranks[len(self.ranks) - 1 - stage]
        return self.ranks[stage]

    def chunk_of(self, stage: int) -> int:
        """Which of its rank's stages this is, counted from 0 in the order of the stages."""
        return 0 if self.bidirectional else self._stages[self.ranks[stage]].index(stage)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Placement):
            return NotImplemented
        return (self.ranks, self.num_ranks, self.bidirectional) == (other.ranks, other.num_ranks, other.bidirectional)

    def __hash__(self) -> int:
        return hash((self.ranks, self.num_ranks, self.bidirectional))

    def __repr__(self) -> str:
        return f"Placement({self.kind!r}, {self.ranks})"


class Schedule:
    """For each rank, its ops in order; no times.

    `codes` holds all ranks' ops behind one another, rank r at `rank_starts[r]:rank_starts[r+1]`. The code of an op is
    `(kind * S + stage) * N + g`, with N = microbatches x steps and g = step * M + microbatch, so that the ops of one kind
    and stage are a run of numbers and what an op waits for is found by adding. `pairs` holds the first position of
    every overlapped pair (the second is the position after it). `joint_update` says whether a STEP waits for the
    gradients of all stages or of its own only. `asynchronous` schedules have no flush.
    """

    __slots__ = (
        "_rows",
        "asynchronous",
        "codes",
        "early_recompute",
        "joint_update",
        "name",
        "num_microbatches",
        "num_steps",
        "options",
        "pairs",
        "placement",
        "rank_starts",
    )

    def __init__(
        self,
        name: str,
        placement: Placement,
        num_microbatches: int,
        orders: Sequence[Iterable[int]],
        *,
        num_steps: int = 1,
        pairs: Iterable[int] = (),
        options: Mapping[str, str | int] | None = None,
        asynchronous: bool = False,
        early_recompute: bool = False,
        joint_update: bool = True,
    ) -> None:
        if len(orders) != placement.num_ranks:
            message = f"the placement has {placement.num_ranks} ranks, the schedule {len(orders)} lists of ops"
            raise ScheduleError(message)
        self.name = name
        self.placement = placement
        self.num_microbatches = num_microbatches
        self.num_steps = num_steps
        self.codes: list[int] = []
        starts = [0]
        for order in orders:
            self.codes.extend(order)
            starts.append(len(self.codes))
        self.rank_starts = tuple(starts)
        self.pairs = frozenset(pairs)
        self.options = dict(options or {})
        self.asynchronous = asynchronous
        self.early_recompute = early_recompute
        self.joint_update = joint_update
        self._rows: tuple[frozenset[int], ...] | None = None

    @classmethod
    def from_ops(
        cls,
        name: str,
        placement: Placement,
        num_microbatches: int,
        orders: Sequence[Sequence[Op]],
        *,
        pairs: Iterable[tuple[int, int]] = (),
        num_steps: int = 1,
        **kwargs: Any,
    ) -> Schedule:
        """A schedule from lists of ops; `pairs` names (rank, index) of the first op of every overlapped pair.

        Raises `ScheduleError` for an op of a stage, microbatch, step or kind that the schedule cannot have.
        """
        base = [0]
        for order in orders:
            base.append(base[-1] + len(order))
        coder = Coder(placement.num_stages, num_microbatches, num_steps)
        codes = [
            [coder.code_of(op, f"rank {rank}, position {i}: ") for i, op in enumerate(order)]
            for rank, order in enumerate(orders)
        ]
        return cls(
            name,
            placement,
            num_microbatches,
            codes,
            num_steps=num_steps,
            pairs=[base[rank] + index for rank, index in pairs],
            **kwargs,
        )

    @property
    def num_ranks(self) -> int:
        return self.placement.num_ranks

    @property
    def num_stages(self) -> int:
        return self.placement.num_stages

    @property
    def num_chunks(self) -> int:
        """v where every rank holds the same number of stages; the largest number otherwise. Two copies count as one."""
        if self.placement.bidirectional:
            return 1
        return max(len(self.placement.stages(rank)) for rank in range(self.num_ranks))

    @property
    def num_ops(self) -> int:
        return len(self.codes)

    @property
    def coder(self) -> Coder:
        return Coder(self.num_stages, self.num_microbatches, self.num_steps)

    def op(self, position: int) -> Op:
        return self.coder.op(self.codes[position])

    def order(self, rank: int) -> list[Op]:
        """The ops of one rank, in order."""
        op = self.coder.op
        return [op(code) for code in self.codes[self.rank_starts[rank] : self.rank_starts[rank + 1]]]

    def rank_at(self, position: int) -> int:
        """The rank whose list holds `position`."""
        return bisect_right(self.rank_starts, position) - 1

    def positions(self, rank: int) -> range:
        return range(self.rank_starts[rank], self.rank_starts[rank + 1])

    def rows(self) -> tuple[frozenset[int], ...]:
        """Per rank, which (kind, stage) it runs, as kind * S + stage. Computed once."""
        if self._rows is None:
            row_of = (self.num_microbatches * self.num_steps).__rfloordiv__
            self._rows = tuple(
                frozenset(map(row_of, self.codes[first:last]))
                for first, last in zip(self.rank_starts, self.rank_starts[1:], strict=False)
            )
        return self._rows

    def kinds(self) -> set[OpKind]:
        """The kinds of op that occur."""
        return {OpKind(row // self.num_stages) for rows in self.rows() for row in rows}

    def replace(self, orders: Sequence[Iterable[int]], **changes: Any) -> Schedule:
        """The same schedule with other lists of codes (and other attributes, by keyword)."""
        kept: dict[str, Any] = {
            "num_steps": self.num_steps,
            "options": self.options,
            "asynchronous": self.asynchronous,
            "early_recompute": self.early_recompute,
            "joint_update": self.joint_update,
            "pairs": self.pairs,
        }
        kept.update(changes)
        name = kept.pop("name", self.name)
        return Schedule(name, self.placement, self.num_microbatches, orders, **kept)

    def __iter__(self) -> Iterator[list[Op]]:
        return map(self.order, range(self.num_ranks))

    def __repr__(self) -> str:
        return f"<Schedule {self.name} P={self.num_ranks} S={self.num_stages} M={self.num_microbatches} ops={self.num_ops}>"


class Coder(NamedTuple):
    """Ops to integers and back, for one schedule's sizes."""

    num_stages: int
    num_microbatches: int
    num_steps: int = 1

    def base(self, kind: OpKind, stage: int) -> int:
        """The code of microbatch 0 of this kind and stage."""
        return (kind * self.num_stages + stage) * self.num_microbatches * self.num_steps

    def run(self, kind: OpKind, stage: int) -> range:
        """The codes of all microbatches of this kind and stage, in order: index it by microbatch, slice it by a range."""
        base = self.base(kind, stage)
        return range(base, base + self.num_microbatches * self.num_steps)

    def op(self, code: int) -> Op:
        row, number = divmod(code, self.num_microbatches * self.num_steps)
        kind, stage = divmod(row, self.num_stages)
        step, microbatch = divmod(number, self.num_microbatches)
        name = OpKind(kind)
        return Op(stage, name, None if name in BOUNDARY_KINDS and not microbatch else microbatch, step)

    def code_of(self, op: Op, where: str = "") -> int:
        """The inverse of `op`; raises `ScheduleError` for what the schedule cannot hold, beginning with `where`."""
        if op.kind >= NUM_ENGINE_KINDS:
            message = f"{where}{op}: {op.kind.name} is a lowered op; a schedule of compute ops cannot hold it"
        elif not 0 <= op.stage < self.num_stages:
            message = f"{where}{op}: stage {op.stage} is not one of 0..{self.num_stages - 1}"
        elif op.microbatch is not None and not 0 <= op.microbatch < self.num_microbatches:
            message = f"{where}{op}: microbatch {op.microbatch} is not one of 0..{self.num_microbatches - 1}"
        elif not 0 <= op.step < self.num_steps:
            message = f"{where}{op}: step {op.step} is not one of 0..{self.num_steps - 1}"
        else:
            return self.base(op.kind, op.stage) + op.step * self.num_microbatches + (op.microbatch or 0)
        raise ScheduleError(message)


def positive(value: int, what: str) -> int:
    """`value` if it is a whole number of at least 1, else a `ParameterError` that names it."""
    if value < 1:
        message = f"{what} must be at least 1, got {value}"
        raise ParameterError(message)
    return value
