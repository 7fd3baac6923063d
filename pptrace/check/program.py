"""A schedule as the checker sees it: the cells of a listing as integers by position, with the way back to their places.

Sizes are what most ops say (`listing.likely_sizes`). It judges nothing: what does not fit has the code GONE and is left to
`structure`.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from itertools import pairwise
from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING

from pptrace.check.findings import Place
from pptrace.listing import likely_holders, likely_sizes
from pptrace.model import NUM_ENGINE_KINDS, Op, OpKind, Placement, Schedule

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pptrace.listing import Cell, Listing

GONE = -1
"""The code of an op that the schedule cannot hold, and of one that `structure` has taken out."""

NUM_KINDS = len(OpKind)


class Program:
    """Ops by position, rank r at `rank_starts[r]:rank_starts[r+1]`.

    `codes[i]` is `(kind * S + stage) * N + step * M + microbatch` (N = M x steps) as in `Schedule`, here for all kinds, or
    GONE. `pairs` holds the first position of every overlapped pair. `holders[s]` is the rank that holds stage s, -1 where
    nobody does; with `bidirectional`, `holders[S + s]` is the one of the copy that goes up. `flat` holds the ops of a
    listing by position (None and an entry of `texts` where a cell is no op), `slots` their columns where those are time steps.
    `given` are the codes as they were, where there is no listing. `from_one`: the listing counts stages and microbatches
    from 1; ops are kept counted from 0.
    """

    def __init__(
        self,
        codes: list[int],
        rank_starts: Sequence[int],
        sizes: tuple[int, int, int],
        *,
        pairs: frozenset[int] = frozenset(),
        holders: Sequence[int],
        bidirectional: bool = False,
        rows: Sequence[Sequence[Cell]] | None = None,
        texts: dict[int, str] | None = None,
    ) -> None:
        self.codes = codes
        self.rank_starts = tuple(rank_starts)
        self.num_stages, self.num_microbatches, self.num_steps = sizes
        self.width = self.num_microbatches * self.num_steps
        self.block = self.num_stages * self.width
        self.pairs = pairs
        self.holders = tuple(holders)
        self.bidirectional = bidirectional
        self.rows = rows
        self.texts = texts or {}
        self.flat: list[Op | None] = []
        self.given = codes if rows is not None else list(codes)
        self.slots: list[int] = []
        self.from_one = False
        self.asynchronous = False
        self.name = ""
        self.options: dict[str, str | int] = {}
        self.early_recompute = False
        self.joint_update = True
        self._seconds = sorted(start + 1 for start in pairs)  # as written, also where a pair is broken up later

    @property
    def num_ranks(self) -> int:
        return len(self.rank_starts) - 1

    @property
    def kinds(self) -> set[OpKind]:
        """The kinds of op that occur (among ops that have a code)."""
        return {OpKind(row // self.num_stages) for row in self.rows_of_codes()}

    def rows_of_codes(self) -> set[int]:
        """Which (kind, stage) occur, as kind * S + stage."""
        return {row for row in set(map(self.width.__rfloordiv__, self.codes)) if row >= 0}

    @property
    def has_messages(self) -> bool:
        kinds = self.kinds
        return any(OpKind.SEND_F <= kind <= OpKind.RECV_B for kind in kinds)

    def base(self, kind: OpKind, stage: int = 0) -> int:
        return (kind * self.num_stages + stage) * self.width

    def split(self, code: int) -> tuple[OpKind, int, int]:
        """A code as (kind, stage, step * M + microbatch)."""
        row, number = divmod(code, self.width)
        kind, stage = divmod(row, self.num_stages)
        return OpKind(kind), stage, number

    def op_of_code(self, code: int) -> Op:
        kind, stage, number = self.split(code)
        step, microbatch = divmod(number, self.num_microbatches)
        plain = kind >= OpKind.UNSHARD or (kind in (OpKind.REDUCE, OpKind.STEP) and not microbatch)
        return Op(stage, kind, None if plain else microbatch, step)

    def text(self, position: int) -> str:
        """The op at a position as it was written."""
        if position in self.texts:
            return self.texts[position]
        if self.flat and self.flat[position] is not None:
            return str(self.flat[position])
        return str(self.op_of_code(self.codes[position] if self.flat else self.given[position]))

    def written(self, position: int) -> str:
        """The text of a listing's cell, where it is one op in ASCII; else ""."""
        place = self.place(position)
        if self.rows is None or place.rank is None or place.position is None:
            return ""
        cell = self.rows[place.rank][place.position]
        return cell.text if len(cell.ops) == 1 and cell.text.isascii() and cell.text.isalnum() else ""

    def rank_at(self, position: int) -> int:
        return bisect_right(self.rank_starts, position) - 1

    def place(self, position: int) -> Place:
        """Where an op stands; the position of a cell counts an overlapped pair once."""
        rank = self.rank_at(position)
        first = self.rank_starts[rank]
        index = position - first - (bisect_right(self._seconds, position) - bisect_right(self._seconds, first - 1))
        cell = self.rows[rank][index] if self.rows is not None else None
        return Place(rank, index, cell.line if cell else 0, cell.column if cell else 0)

    def rank_place(self, rank: int) -> Place:
        """Where the list of a rank stands: the line that it is all of, where it is."""
        row = self.rows[rank] if self.rows is not None and rank < len(self.rows) else ()
        return Place(rank, line=row[0].line if row and row[0].line == row[-1].line else 0)

    def holder(self, stage: int, number: int) -> int:
        """The rank that holds (stage, step * M + microbatch)."""
        if self.bidirectional and number % self.num_microbatches >= (self.num_microbatches + 1) // 2:
            return self.holders[self.num_stages + stage]
        return self.holders[stage]

    def crosses(self, stage: int) -> bool:
        """Whether what `stage` sends to `stage` + 1 goes to another rank."""
        return self.holders[stage] != self.holders[stage + 1]

    def where(self) -> list[int]:
        """Positions by code, the first one where an op occurs several times, -1 where it does not occur."""
        table = [-1] * (NUM_KINDS * self.block)
        codes = self.codes
        for position in range(len(codes) - 1, -1, -1):
            table[codes[position]] = position  # GONE writes the last place, which is put right below
        if GONE in codes:
            last = NUM_KINDS * self.block - 1
            table[last] = codes.index(last) if last in codes else -1
        return table

    def compute_schedule(self) -> tuple[Schedule, list[int]]:
        """The ops that an engine runs, without those that are gone, and the position of each in this program."""
        limit = NUM_ENGINE_KINDS * self.block
        if self.num_ranks and min(self.codes, default=0) >= 0 and max(self.codes, default=0) < limit:
            origin = list(range(len(self.codes)))
        else:
            origin = [i for i, code in enumerate(self.codes) if 0 <= code < limit]
        new_of = {old: new for new, old in enumerate(origin)} if self.pairs else {}
        bounds = self.rank_starts
        if len(origin) == len(self.codes):
            orders = [self.codes[a:b] for a, b in pairwise(bounds)]
        else:
            orders = [[code for code in self.codes[a:b] if 0 <= code < limit] for a, b in pairwise(bounds)]
        schedule = Schedule(
            self.name or "file",
            self.placement(),
            self.num_microbatches,
            orders,
            num_steps=self.num_steps,
            pairs=[new_of[i] for i in self.pairs if i in new_of and i + 1 in new_of],
            options=self.options,
            asynchronous=self.asynchronous,
            early_recompute=self.early_recompute,
            joint_update=self.joint_update,
        )
        return schedule, origin

    def placement(self) -> Placement:
        """Which rank holds which stage, as the ops say; a stage that nobody runs counts for the last rank."""
        ranks = [rank if rank >= 0 else self.num_ranks - 1 for rank in self.holders[: self.num_stages]]
        kind = "bidirectional" if self.bidirectional else "file"
        return Placement(kind, ranks, self.num_ranks, bidirectional=self.bidirectional)


def from_schedule(schedule: Schedule) -> Program:
    """The program of a schedule; its codes are the same."""
    placement = schedule.placement
    holders = [*placement.ranks, *(placement.ranks[::-1] if placement.bidirectional else ())]
    program = Program(
        list(schedule.codes),
        schedule.rank_starts,
        (schedule.num_stages, schedule.num_microbatches, schedule.num_steps),
        pairs=schedule.pairs,
        holders=holders,
        bidirectional=placement.bidirectional,
    )
    program.asynchronous = schedule.asynchronous
    program.name = schedule.name
    program.options = schedule.options
    program.early_recompute = schedule.early_recompute
    program.joint_update = schedule.joint_update
    return program


def from_listing(listing: Listing, wanted: int | None = None) -> Program:
    """The program of a listing; `wanted` is M where some stage agrees. Raises `LimitError` for absurdly large numbers."""
    ops: list[Op | None] = []
    starts, pairs, texts = [0], [], {}
    for row in listing.rows:
        lengths = set(map(len, map(attrgetter("ops"), row)))
        if lengths == {1}:
            ops.extend(map(itemgetter(0), map(attrgetter("ops"), row)))
        else:
            for cell in row:
                if cell.is_pair:
                    pairs.append(len(ops))
                elif not cell.ops:
                    texts[len(ops)] = cell.text
                ops.extend(cell.ops or (None,))
        starts.append(len(ops))
    known = [op for op in ops if op is not None] if texts else ops
    from_one = _counts_from_one(known)
    if from_one:
        ops = [None if op is None else _less_one(op) for op in ops]
        known = [op for op in ops if op is not None]
    sizes, codes = likely_sizes(known, wanted)  # type: ignore[arg-type]
    if codes is None or texts:
        codes = [_code(op, sizes) for op in ops]
    program = Program(
        codes,
        starts,
        sizes,
        pairs=frozenset(pairs),
        holders=(),
        rows=listing.rows,
        texts=texts,
    )
    program.flat = ops
    program.from_one = from_one
    program.name = listing.source
    if listing.slots:
        program.slots = [
            slot
            for row, slots in zip(listing.rows, listing.slots, strict=True)
            for cell, slot in zip(row, slots, strict=True)
            for _ in cell.ops or (None,)
        ]
    _infer_holders(program)
    return program


def _counts_from_one(ops: Sequence[Op | None]) -> bool:
    """Whether nothing has stage 0 and nothing microbatch 0: both are counted from 1."""
    known = [op for op in ops if op is not None]
    return (
        min(map(itemgetter(0), known), default=0) == 1
        and min((op.microbatch for op in known if op.microbatch is not None), default=0) == 1
    )


def _less_one(op: Op) -> Op:
    return op._replace(stage=op.stage - 1, microbatch=None if op.microbatch is None else op.microbatch - 1)


def _code(op: Op | None, sizes: tuple[int, int, int]) -> int:
    if op is None:
        return GONE
    num_stages, num, num_steps = sizes
    number = op.microbatch or 0
    if not (0 <= op.stage < num_stages and 0 <= number < num and 0 <= op.step < num_steps):
        return GONE
    return (op.kind * num_stages + op.stage) * num * num_steps + op.step * num + number


def _infer_holders(program: Program) -> None:
    width, num_stages = program.width, program.num_stages
    counts: list[Counter[int]] = []
    for first, last in pairwise(program.rank_starts):
        by_row = Counter(map(width.__rfloordiv__, program.codes[first:last]))
        by_stage: Counter[int] = Counter()
        for row, count in by_row.items():
            if row >= 0:
                by_stage[row % num_stages] += count
        counts.append(by_stage)
    program.bidirectional, program.holders = likely_holders(counts, num_stages, program.num_microbatches)
