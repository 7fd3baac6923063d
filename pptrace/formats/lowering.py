"""From a compute order to one with messages and sharding ops, and back: what PyTorch 2.13 does to a schedule before it runs
it. Listing in, Listing out; it does not read or write files, and does not judge the result (check/ does).

Source of the early and deferred rules: torch 2.13, `torch/distributed/pipelining/schedules.py`, `_add_unshard_reshard`,
`_add_reduce_grad`, `_add_send_recv`, `_defer_recv_ops`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pptrace.errors import ParameterError, ScheduleError
from pptrace.formats.listings import place, placement_of
from pptrace.formats.text import without_collector
from pptrace.listing import Cell, Listing
from pptrace.model import BACKWARD_KINDS, KINDS_WITHOUT_MICROBATCH, MESSAGE_KINDS, Op, OpKind

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pptrace.model import Placement

RECEIVE_CHOICES = ("early", "deferred", "inline")
_TORCH_COMPUTE = (OpKind.F, OpKind.B, OpKind.I, OpKind.W)
MAX_ACTIVE_STAGES = 3
"""How many different stages PyTorch keeps unsharded ahead of the ops that need them."""


@without_collector()
def lower(listing: Listing, receive: str = "early") -> Listing:
    """The same order with messages: `early` and `deferred` as PyTorch 2.13 lowers it (with UNSHARD, RESHARD, REDUCE_GRAD),
    `inline` with every receive right before the op that uses it and every send right after the op that makes it.

    Messages and sharding ops that the listing already has are made anew. Cells that are made stand at the place of the
    op that they belong to. Raises `ScheduleError` where the compute order itself is stuck (not for `inline`) or a stage is
    on two ranks, `ParameterError` for another `receive`.
    """
    if receive not in RECEIVE_CHOICES:
        message = f"--recv is {', '.join(RECEIVE_CHOICES[:-1])} or {RECEIVE_CHOICES[-1]}, got {receive[:40]!r}"
        raise ParameterError(message)
    compute = raise_to_compute(listing)
    num_microbatches = 1 + max(
        (op.microbatch or 0 for row in compute.rows for cell in row for op in cell.ops), default=0
    )
    placement = placement_of(compute.rows, num_microbatches)
    if placement.bidirectional:
        message = (
            "messages cannot be written for two copies of a stage in opposite directions: the names of the ops do not say "
            "which copy sends"
        )
        raise ScheduleError(message)
    if receive == "inline":
        rows: Iterable[Sequence[Cell]] = [
            _reduced(_with_messages(row, placement), num_microbatches) for row in compute.rows
        ]
    else:
        sharded = [_reduced(_sharded(row), num_microbatches) for row in compute.rows]
        rows = _early(sharded, placement)
        if receive == "deferred":
            rows = [_deferred(row, rank, placement) for rank, row in enumerate(rows)]
    return Listing(tuple(map(tuple, rows)), listing.source, notes=listing.notes)


def raise_to_compute(listing: Listing) -> Listing:
    """The listing without messages, sharding and REDUCE_GRAD; empty cells go with them, if there were any."""
    lowered = KINDS_WITHOUT_MICROBATCH.union(MESSAGE_KINDS)
    rows = tuple(tuple(cell for cell in row if not cell.ops or cell.ops[0].kind not in lowered) for row in listing.rows)
    if rows == listing.rows:
        return listing
    return Listing(rows, listing.source, notes=listing.notes)


def for_torch(listing: Listing) -> tuple[Listing, str]:
    """The compute ops of a listing that PyTorch can load, and a sentence on what is left out ("" where nothing is): messages,
    sharding, REDUCE, STEP and recomputation (PyTorch recomputes inside the backward).

    Raises `ScheduleError` for what its files cannot hold: several optimizer steps, two copies of the stages.
    """
    counts: dict[str, int] = {}
    for rank, row in enumerate(listing.rows):
        for cell in row:
            for op in cell.ops:
                if op.step:
                    message = (
                        f"{place(cell, rank)}{op}: a PyTorch schedule file holds one optimizer step; leave --steps out"
                    )
                    raise ScheduleError(message)
                if op.kind not in _TORCH_COMPUTE:
                    counts[op.kind.name] = counts.get(op.kind.name, 0) + 1
    num_microbatches = 1 + max((op.microbatch or 0 for row in listing.rows for c in row for op in c.ops), default=0)
    if placement_of(listing.rows, num_microbatches).bidirectional:
        message = "a PyTorch schedule file cannot hold two copies of the stages: in it a stage lives on one rank"
        raise ScheduleError(message)
    if not counts:
        return listing, ""
    rows = tuple(tuple(cell for cell in row if cell.ops[0].kind in _TORCH_COMPUTE) for row in listing.rows)
    named = ", ".join(f"{count} {name}" for name, count in counts.items())
    return Listing(
        rows, listing.source, notes=listing.notes
    ), f"left out, as PyTorch's compute files cannot hold it: {named}"


def has_messages(listing: Listing) -> bool:
    """Whether the listing is lowered: it sends or receives."""
    return any(op.kind in MESSAGE_KINDS for row in listing.rows for cell in row for op in cell.ops)


def _made(stage: int, kind: OpKind, microbatch: int | None, beside: Cell) -> Cell:
    op = Op(stage, kind, microbatch)
    return Cell((op,), str(op), beside.line, beside.column)


def _peer_stage(op: Op, num_stages: int) -> int | None:
    """The stage that takes the output of `op`; None at the ends, and for ops whose output stays."""
    if op.kind is OpKind.F:
        return op.stage + 1 if op.stage + 1 < num_stages else None
    if op.kind in BACKWARD_KINDS:
        return op.stage - 1 if op.stage else None
    return None


def _source_stage(op: Op, num_stages: int) -> int | None:
    """The stage whose output `op` takes."""
    if op.kind is OpKind.F:
        return op.stage - 1 if op.stage else None
    if op.kind in BACKWARD_KINDS:
        return op.stage + 1 if op.stage + 1 < num_stages else None
    return None


def _travels(a: int, b: int | None, placement: Placement) -> bool:
    return b is not None and placement.ranks[a] != placement.ranks[b]


# ---------------------------------------------------------------------------------------------- sharding and reduction


def _sharded(row: Sequence[Cell]) -> list[Cell]:
    """UNSHARD ahead of use for the next `MAX_ACTIVE_STAGES` stages, RESHARD where one of them makes room or at the end."""
    # A set, because the order in which it yields stages is the order of PyTorch's RESHARDs.
    active: set[int] = set()
    result: list[Cell] = []
    wanted: tuple[int, ...] = ()
    for cell, ahead in zip(row, _stages_ahead(row), strict=True):
        if ahead != wanted:
            wanted = ahead
            gone = [stage for stage in active if stage not in wanted]
            fetched = [stage for stage in wanted if stage not in active]
            for stage in gone:
                active.remove(stage)
                result.append(_made(stage, OpKind.RESHARD, None, cell))
            for stage in fetched:
                active.add(stage)
                result.append(_made(stage, OpKind.UNSHARD, None, cell))
        result.append(cell)
    result += [_made(stage, OpKind.RESHARD, None, row[-1]) for stage in list(active)]
    return result


def _stages_ahead(row: Sequence[Cell]) -> list[tuple[int, ...]]:
    """For every cell, the next different stages from it on: three, or four where the third and fourth are one pair.

    One pass from the back that keeps the stages by their next use, so that it is linear where a rank has few stages.
    """
    by_next_use: list[int] = []
    next_cell: dict[int, int] = {}
    result: list[tuple[int, ...]] = [()] * len(row)
    for index in range(len(row) - 1, -1, -1):
        for op in reversed(row[index].ops):
            if not by_next_use or by_next_use[0] != op.stage:
                if op.stage in next_cell:
                    by_next_use.remove(op.stage)
                by_next_use.insert(0, op.stage)
            next_cell[op.stage] = index
        count = MAX_ACTIVE_STAGES
        if len(by_next_use) > count and next_cell[by_next_use[count]] == next_cell[by_next_use[count - 1]]:
            count += 1
        result[index] = tuple(by_next_use[:count])
    return result


def _reduced(row: Sequence[Cell], num_microbatches: int) -> list[Cell]:
    """REDUCE_GRAD of a stage right after the op that completes its weight gradient (and that op's messages)."""
    counts: dict[int, int] = {}
    result: list[Cell] = []
    waiting: list[Cell] = []
    for cell in row:
        if waiting and cell.ops[0].kind not in (OpKind.SEND_F, OpKind.SEND_B):
            result += waiting
            waiting = []
        result.append(cell)
        for op in cell.ops:
            if op.kind in (OpKind.B, OpKind.W):
                counts[op.stage] = counts.get(op.stage, 0) + 1
                if counts[op.stage] == num_microbatches:
                    waiting.append(_made(op.stage, OpKind.REDUCE_GRAD, None, cell))
    return result + waiting


# ------------------------------------------------------------------------------------------------------------ messages


def _with_messages(row: Sequence[Cell], placement: Placement) -> list[Cell]:
    """Receives right before use, sends right after: no other rank is looked at."""
    num_stages = placement.num_stages
    result: list[Cell] = []
    for cell in row:
        for op in cell.ops:
            if _travels(op.stage, _source_stage(op, num_stages), placement):
                kind = OpKind.RECV_F if op.kind is OpKind.F else OpKind.RECV_B
                result.append(_made(op.stage, kind, op.microbatch, cell))
        result.append(cell)
        for op in cell.ops:
            if _travels(op.stage, _peer_stage(op, num_stages), placement):
                kind = OpKind.SEND_F if op.kind is OpKind.F else OpKind.SEND_B
                result.append(_made(op.stage, kind, op.microbatch, cell))
    return result


def _early(rows: Sequence[Sequence[Cell]], placement: Placement) -> list[list[Cell]]:
    """Sends right after their op; every receive where its list stands when the message is sent.

    The ranks take turns, one cell each; a rank whose next op has no input yet is passed over.
    """
    num_stages = placement.num_stages
    result: list[list[Cell]] = [[] for _ in rows]
    at = [0] * len(rows)
    delivered: set[tuple[bool, int, int | None]] = set()  # (is it a forward, stage that takes it, microbatch)
    running = [rank for rank, row in enumerate(rows) if row]
    while running:
        moved = False
        for rank in running:
            cell = rows[rank][at[rank]]
            if not all(_is_fed(op, num_stages, delivered) for op in cell.ops):
                continue
            moved = True
            at[rank] += 1
            result[rank].append(cell)
            for op in cell.ops:
                peer = _peer_stage(op, num_stages)
                if peer is None:
                    continue
                is_forward = op.kind is OpKind.F
                delivered.add((is_forward, peer, op.microbatch))
                if _travels(op.stage, peer, placement):
                    send, receive = (OpKind.SEND_F, OpKind.RECV_F) if is_forward else (OpKind.SEND_B, OpKind.RECV_B)
                    result[rank].append(_made(op.stage, send, op.microbatch, cell))
                    result[placement.ranks[peer]].append(_made(peer, receive, op.microbatch, cell))
        if not moved:
            rank = running[0]
            cell = rows[rank][at[rank]]
            message = (
                f"{place(cell, rank)}the order is stuck, so messages cannot be placed: {cell.text} on rank {rank} waits for "
                "an op that never comes; `pptrace check` names the cycle"
            )
            raise ScheduleError(message)
        running = [rank for rank in running if at[rank] < len(rows[rank])]
    return result


def _is_fed(op: Op, num_stages: int, delivered: set[tuple[bool, int, int | None]]) -> bool:
    if _source_stage(op, num_stages) is None:
        return True
    return (op.kind is OpKind.F, op.stage, op.microbatch) in delivered


def _deferred(row: Sequence[Cell], rank: int, placement: Placement) -> list[Cell]:
    """Every receive put off until the op that uses it; but a lower rank posts what it still has to receive from a higher
    one before it sends to it, so that one side of each pair listens first."""
    held: dict[tuple[OpKind, int, int | None], Cell] = {}
    result: list[Cell] = []
    for cell in row:
        kind = cell.ops[0].kind
        if kind in (OpKind.RECV_F, OpKind.RECV_B):
            op = cell.ops[0]
            held[kind, op.stage, op.microbatch] = cell
            continue
        if kind in (OpKind.SEND_F, OpKind.SEND_B) and held:
            peer = placement.ranks[cell.ops[0].stage + (1 if kind is OpKind.SEND_F else -1)]
            if rank < peer:
                for key in [k for k in held if placement.ranks[k[1] + (-1 if k[0] is OpKind.RECV_F else 1)] == peer]:
                    result.append(held.pop(key))
        for op in cell.ops:
            if op.kind is OpKind.F:
                used = held.pop((OpKind.RECV_F, op.stage, op.microbatch), None)
            elif op.kind in BACKWARD_KINDS:
                used = held.pop((OpKind.RECV_B, op.stage, op.microbatch), None)
            else:
                continue
            if used is not None:
                result.append(used)
        result.append(cell)
    return result + list(held.values())
