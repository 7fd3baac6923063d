"""What every op waits for: THE dependency rule. Simulator, checker, explainer and arrows all read these arrays.

    F(s,m)          input: F(s-1,m)
    B(s,m), I(s,m)  input: B(s+1,m) or I(s+1,m)      state: R(s,m) if there is one, else F(s,m)
    R(s,m)          input: what its B or I has (none with early recomputation)      state: F(s,m)
    W(s,m)                                           state: I(s,m)
    REDUCE(s)       gathers the last B or W of every copy of stage s in its step; of a single copy, follows it by the order
                    of its rank
    STEP(s)         gathers every REDUCE of the step (joint update), or follows its own by the order of its rank
    and every op follows the one before it in its rank's list

An `input` arrives from the op that produced it, over a link where the two are on different ranks. A `state` was saved by
an op of the same stage and rank, so that the rank's own order delivers it, or never does.
"""

from __future__ import annotations

from collections import Counter
from itertools import chain
from operator import gt
from typing import TYPE_CHECKING

from pptrace.deadlock import DeadlockError, Wait
from pptrace.errors import LimitError, ScheduleError
from pptrace.model import OpKind

if TYPE_CHECKING:
    from pptrace.model import Schedule

NOTHING = -1
"""The op waits for no op of this sort."""
MISSING = -2
"""The op waits for an op that is in no rank's list."""
GATHER = -3
"""The op waits for a group of ops, see `Dependencies.gathers`."""

MAX_TABLE = 8_000_000
"""Largest stages x microbatches x steps for which tables are made; bounds memory for untrusted files."""


class Dependencies:
    """Positions by position, and by code.

    `inputs[i]` and `states[i]` are a position, NOTHING or MISSING; `inputs[i]` may be GATHER, and then `gathers[i]` is the
    group (one tuple object may be shared by many ops). `where[code]` is the position of an op, or MISSING. `doubled` says
    whether some op occurs twice; what waits for it then waits for its last occurrence.
    """

    __slots__ = ("_states", "_states_by_code", "doubled", "gathers", "inputs", "schedule", "where")

    def __init__(self, schedule: Schedule) -> None:
        num_stages = schedule.num_stages
        width = schedule.num_microbatches * schedule.num_steps
        block = num_stages * width
        kinds = schedule.kinds()
        self.schedule = schedule
        self.where = where = _where_table(schedule, max(kinds, default=OpKind.F) + 1)
        self.doubled = len(where) - where.count(MISSING) != schedule.num_ops

        absent = [MISSING] * block
        f, b, i, _, r = (
            where[kind * block : (kind + 1) * block] if kind in kinds else absent for kind in range(OpKind.R + 1)
        )
        nothing = [NOTHING] * block
        edge = [NOTHING] * width
        # MISSING < NOTHING < any position, so the larger of two places is the one that exists.
        gradient = b if OpKind.I not in kinds else i if OpKind.B not in kinds else _larger(b, i)
        from_above = gradient[width:] + edge
        saved = f if OpKind.R not in kinds else [at_r if at_r >= 0 else at_f for at_r, at_f in zip(r, f, strict=True)]
        recompute_input = nothing if schedule.early_recompute else from_above
        by_kind = (edge + f[:-width], from_above, from_above, nothing, recompute_input, nothing, nothing)
        by_code = list(chain.from_iterable(by_kind[: len(where) // block]))
        self.inputs: list[int] = list(map(by_code.__getitem__, schedule.codes))
        self._states_by_code = (nothing, saved, saved, i, f, nothing, nothing)
        self._states: list[int] | None = None
        self.gathers = _gathers(schedule) if kinds & {OpKind.REDUCE, OpKind.STEP} else {}
        for position in self.gathers:
            self.inputs[position] = GATHER

    @property
    def states(self) -> list[int]:
        if self._states is None:
            by_code = list(chain.from_iterable(self._states_by_code[: len(self.where) // len(self._states_by_code[0])]))
            self._states = list(map(by_code.__getitem__, self.schedule.codes))
        return self._states

    def after(self, position: int) -> tuple[int, ...]:
        """The positions that `position` waits for, its rank's order left out."""
        if self.inputs[position] == GATHER:
            return self.gathers[position]
        if self.schedule.codes[position] >= OpKind.REDUCE * len(self._states_by_code[0]):
            return self._own_update(position)
        return tuple(p for p in (self.inputs[position], self.states[position]) if p >= 0)

    def _own_update(self, position: int) -> tuple[int, ...]:
        """Of a REDUCE, the last B or W of its stage in its step; of a STEP, its own REDUCE; nothing where there is no flush."""
        schedule, code = self.schedule, self.schedule.codes[position]
        if schedule.asynchronous:
            return ()
        block, num = len(self._states_by_code[0]), schedule.num_microbatches
        if code >= OpKind.STEP * block:
            found = self.where[code - block]
        else:
            first = code % block // num * num
            kinds = schedule.kinds() & {OpKind.B, OpKind.W}
            found = max(
                (max(self.where[kind * block + first : kind * block + first + num]) for kind in kinds), default=-1
            )
        return (found,) if found >= 0 else ()

    def some_state_is_not_before(self) -> bool:
        """Whether an op may stand before, or without, the op whose state it needs; False is certain, True is to be looked
        into. Half as long as making `states`."""
        block = len(self._states_by_code[0])
        return any(
            any(map(gt, self._states_by_code[kind], self.where[kind * block : (kind + 1) * block]))
            or (kind in self.schedule.kinds() and min(self._states_by_code[kind]) == MISSING)
            for kind in range(OpKind.B, min(OpKind.R + 1, len(self.where) // block))
        )


def _larger(ones: list[int], others: list[int]) -> list[int]:
    """The larger of each two; written out because it takes half as long as `map(max, ..)`."""
    return [one if one > other else other for one, other in zip(ones, others, strict=True)]


def _where_table(schedule: Schedule, num_kinds: int) -> list[int]:
    """Positions by code, MISSING where the schedule has no such op. Raises `LimitError` for absurd sizes."""
    block = schedule.num_stages * schedule.num_microbatches * schedule.num_steps
    if block > max(MAX_TABLE, 4 * schedule.num_ops):
        message = (
            f"{schedule.num_stages} stages x {schedule.num_microbatches} microbatches x {schedule.num_steps} steps "
            f"is more than the {MAX_TABLE:,} places that pptrace keeps; are the numbers in the ops right?"
        )
        raise LimitError(message)
    where = [MISSING] * (num_kinds * block)
    for position, code in enumerate(schedule.codes):
        where[code] = position
    return where


def dependencies(schedule: Schedule) -> Dependencies:
    """What every op of `schedule` waits for, in time and memory linear in its ops.

    Ops that are missing are marked, not refused: the checker wants to name them all. See `require_runnable`. Raises
    `LimitError` where stages x microbatches x steps is absurdly large.
    """
    return Dependencies(schedule)


def _gathers(schedule: Schedule) -> dict[int, tuple[int, ...]]:
    """The groups that REDUCE and STEP ops wait for. Only ops on other ranks need to be in a group."""
    coder = schedule.coder
    width = schedule.num_microbatches * schedule.num_steps
    block = schedule.num_stages * width
    boundary = [position for position, code in enumerate(schedule.codes) if code >= OpKind.REDUCE * block]
    if schedule.asynchronous:
        return {}
    groups: dict[int, tuple[int, ...]] = {}
    if schedule.placement.bidirectional:
        last = _last_gradients(schedule)
        for position in boundary:
            op = coder.op(schedule.codes[position])
            if op.kind is OpKind.REDUCE:
                groups[position] = tuple(last.get((op.stage, op.step), ()))
    if schedule.joint_update:
        reduces: dict[int, list[int]] = {}
        for position in boundary:
            op = coder.op(schedule.codes[position])
            if op.kind is OpKind.REDUCE:
                reduces.setdefault(op.step, []).append(position)
        shared = {step: tuple(positions) for step, positions in reduces.items()}
        for position in boundary:
            op = coder.op(schedule.codes[position])
            if op.kind is OpKind.STEP and op.step in shared:
                groups[position] = shared[op.step]
    return groups


def _last_gradients(schedule: Schedule) -> dict[tuple[int, int], list[int]]:
    """By (stage, step): for every rank that holds the stage, the last op that adds to its weight gradient."""
    coder = schedule.coder
    last: dict[tuple[int, int], dict[int, int]] = {}
    for rank in range(schedule.num_ranks):
        for position in schedule.positions(rank):
            op = coder.op(schedule.codes[position])
            if op.kind in (OpKind.B, OpKind.W):
                last.setdefault((op.stage, op.step), {})[rank] = position
    return {key: list(by_rank.values()) for key, by_rank in last.items()}


def require_runnable(schedule: Schedule, deps: Dependencies) -> None:
    """Raise for what no engine could run: an op that is doubled or awaited but missing, a stage on two ranks
    (`ScheduleError`), or an op whose state is saved by a later op of the same list (`DeadlockError`)."""
    if deps.doubled:
        code = next(code for code, times in Counter(schedule.codes).items() if times > 1)
        first, second = [i for i, c in enumerate(schedule.codes) if c == code][:2]
        message = (
            f"{schedule.op(first)} occurs twice: on rank {schedule.rank_at(first)} and on rank "
            f"{schedule.rank_at(second)}; every op runs once"
        )
        raise ScheduleError(message)
    _require_inputs(schedule, deps.inputs, "the output of", is_input=True)
    _require_one_rank_per_stage(schedule)
    if deps.some_state_is_not_before():
        _require_inputs(schedule, deps.states, "what is saved by", is_input=False)
        for position, state in enumerate(deps.states):
            if state > position:
                rank, op = schedule.rank_at(position), schedule.op(position)
                raise DeadlockError([Wait(rank, op, rank, schedule.op(state))], {rank: op})


def require_pairs_apart(schedule: Schedule, deps: Dependencies) -> None:
    """Raise `ScheduleError` for an overlapped pair that cannot be one block, because one of its ops waits for the other."""
    codes, block = schedule.codes, schedule.num_stages * schedule.num_microbatches * schedule.num_steps
    for first in schedule.pairs:
        second = first + 1
        if (
            codes[first] % block == codes[second] % block
            or deps.inputs[second] == first
            or deps.inputs[first] == second
        ):
            message = (
                f"rank {schedule.rank_at(first)}: {schedule.op(first)} and {schedule.op(second)} are one overlapped pair, "
                "but one waits for the other; take them apart, or use --overlap split"
            )
            raise ScheduleError(message)


def _require_inputs(schedule: Schedule, waits: list[int], need: str, *, is_input: bool) -> None:
    if MISSING in waits:
        position = waits.index(MISSING)
        message = (
            f"rank {schedule.rank_at(position)}: {schedule.op(position)} needs {need} "
            f"{_awaited_text(schedule, position, is_input)}, which is in no rank's list"
        )
        raise ScheduleError(message)


def _require_one_rank_per_stage(schedule: Schedule) -> None:
    if schedule.placement.bidirectional:
        _require_its_copy(schedule)
    for rank, rows in enumerate(schedule.rows()):
        held = set(schedule.placement.stages(rank))
        strange = {row % schedule.num_stages for row in rows} - held
        if strange:
            stage = min(strange)
            message = (
                f"rank {rank} runs ops of stage {stage}, which lives on rank {schedule.placement.rank_of(stage)}; "
                "a stage lives on one rank"
            )
            raise ScheduleError(message)


def _require_its_copy(schedule: Schedule) -> None:
    """In two-way placements: every microbatch on the copy of its direction."""
    placement, stages, num = schedule.placement, schedule.num_stages, schedule.num_microbatches
    width, first_up = num * schedule.num_steps, (num + 1) // 2
    for rank in range(schedule.num_ranks):
        positions = schedule.positions(rank)
        codes = schedule.codes[positions.start : positions.stop]
        for stage, up in _copies(schedule, codes):
            home = placement.rank_of(stage, num - 1 if up else 0, num)
            if home != rank:
                strays = (c % num for c in codes if c // width % stages == stage and (c % num >= first_up) == up)
                message = (
                    f"rank {rank} runs stage {stage} of microbatch {min(strays)}, whose copy of the stage lives on "
                    f"rank {home}; in a two-way placement the first half of the microbatches goes down, the others go up"
                )
                raise ScheduleError(message)


def _copies(schedule: Schedule, codes: list[int]) -> set[tuple[int, bool]]:
    """The (stage, whether it is the copy that goes up) of which a two-way placement's `codes` are ops."""
    num, stages = schedule.num_microbatches, schedule.num_stages
    first_up = (num + 1) // 2
    if num % 2:
        width = num * schedule.num_steps
        return {(code // width % stages, code % num >= first_up) for code in codes}
    # Both halves of a step are alike in length: one division tells row, step and half, and few numbers are left.
    halves = set(map(first_up.__rfloordiv__, codes))
    return {(half // (2 * schedule.num_steps) % stages, half % 2 == 1) for half in halves}


def _awaited_text(schedule: Schedule, position: int, is_input: bool) -> str:
    op = schedule.op(position)
    number = op.microbatch or 0
    suffix = f"@{op.step}" if op.step else ""
    if is_input and op.kind is OpKind.F:
        return f"{op.stage - 1}F{number}{suffix}"
    if is_input:
        return f"{op.stage + 1}B{number}{suffix} (or {op.stage + 1}I{number}{suffix})"
    return f"{op.stage}{'I' if op.kind is OpKind.W else 'F'}{number}{suffix}"
