"""Orders that frameworks wrote, and our own, in one shape: per rank a list of cells, a cell being one op or an overlapped pair.

Understands the dialects of `goldens/framework_orders` (the op grammar with fused `(F;I;W)`, DualPipe's `0Fa3`, Chimera's rows)
and of PyTorch's compute CSV. `cells(schedule)` gives the same shape for a Schedule, so that a test is one `==`.
"""

from __future__ import annotations

import csv
import io
import json
import re
from typing import TYPE_CHECKING, NamedTuple

import golden_data

from pptrace.model import Op, OpKind

if TYPE_CHECKING:
    from pptrace.model import Placement, Schedule

Cells = list[list[tuple[Op, ...]]]

_DUALPIPE_OP = re.compile(r"(\d+)([FBIW])([ab])(\d+)")


class Written(NamedTuple):
    """What a file says: its sizes and its cells, rank by rank."""

    num_ranks: int
    num_microbatches: int
    num_stages: int
    cells: Cells

    def schedule(self, placement: Placement, name: str = "file") -> Schedule:
        """The cells as a Schedule on `placement`."""
        from pptrace.model import Schedule

        orders = [[op for cell in row for op in cell] for row in self.cells]
        pairs = []
        for rank, row in enumerate(self.cells):
            index = 0
            for cell in row:
                if len(cell) == 2:
                    pairs.append((rank, index))
                index += len(cell)
        return Schedule.from_ops(name, placement, self.num_microbatches, orders, pairs=pairs)


def cells(schedule: Schedule) -> Cells:
    """Our own order: compute ops only, overlapped pairs as cells of two."""
    rows: Cells = []
    for rank in range(schedule.num_ranks):
        row: list[tuple[Op, ...]] = []
        positions = iter(schedule.positions(rank))
        for position in positions:
            op = schedule.op(position)
            if position in schedule.pairs:
                row.append((op, schedule.op(next(positions))))
            elif op.kind not in (OpKind.REDUCE, OpKind.STEP):
                row.append((op,))
        rows.append(row)
    return rows


def framework(path: str) -> Written:
    """One file of `goldens/framework_orders`, whatever its dialect."""
    document = json.loads(golden_data.text(path))
    if "rows" in document:
        return _chimera(document)
    num_ranks, num = document["P"], document["M"]
    if "num_stages" not in document:
        rows = [
            [tuple(_dualpipe_op(t, num_ranks, num) for t in _parts(cell)) for cell in row] for row in document["order"]
        ]
        return Written(num_ranks, num, num_ranks, rows)
    rows = [[_fused([Op.parse(t) for t in _parts(cell)]) for cell in row] for row in document["order"]]
    return Written(num_ranks, num, document["num_stages"], rows)


def framework_names(family: str) -> list[str]:
    """The files of one family, for example "jaxpp_gpipe"."""
    return golden_data.names(f"goldens/framework_orders/{family}_")


def torch_csv(path: str) -> Written:
    """A compute file of PyTorch; empty cells and REDUCE_GRAD are left out."""
    rows: Cells = []
    for line in csv.reader(io.StringIO(golden_data.text(path), newline="")):
        texts = [cell for cell in line if cell and not cell.endswith("REDUCE_GRAD")]
        rows.append([tuple(Op.parse(t) for t in _parts(cell.removesuffix("OVERLAP_F_B"))) for cell in texts])
    ops = [op for row in rows for cell in row for op in cell]
    num_stages = 1 + max(op.stage for op in ops)
    num = len({op.microbatch for op in ops})
    return Written(len(rows), num, num_stages, rows)


def _parts(cell: str) -> list[str]:
    return cell.strip("()").split(";")


def _fused(ops: list[Op]) -> tuple[Op, ...]:
    """JaxPP's fused tasks: I and W of one (stage, microbatch) in one task are B."""
    if len(ops) > 1 and ops[-2] == ops[-1]._replace(kind=OpKind.I) and ops[-1].kind is OpKind.W:
        ops = [*ops[:-2], ops[-1]._replace(kind=OpKind.B)]
    if len(ops) > 2:
        message = f"a fused task of {len(ops)} ops: {ops}"
        raise ValueError(message)
    return tuple(ops)


def _dualpipe_op(text: str, num_ranks: int, num_microbatches: int) -> Op:
    """`<rank><kind><a|b><number>`: a goes down from rank 0, b goes up from the last rank."""
    match = _DUALPIPE_OP.fullmatch(text)
    if match is None:
        raise ValueError(text)
    rank, number = int(match[1]), int(match[4])
    if match[3] == "a":
        return Op(rank, OpKind[match[2]], number)
    return Op(num_ranks - 1 - rank, OpKind[match[2]], num_microbatches // 2 + number)


def _chimera(document: dict[str, object]) -> Written:
    """`pipeline@direction@f|b|s` without microbatch numbers: the k-th f of a direction is microbatch k of that direction."""
    num_ranks, num, rows = document["D"], document["N"], document["rows"]
    if not (isinstance(num_ranks, int) and isinstance(num, int) and isinstance(rows, list)):
        raise TypeError(document)
    result: Cells = []
    for rank, row in enumerate(rows):
        seen: dict[tuple[str, str], int] = {}
        ops = []
        for cell in filter(None, row):
            _, direction, letter = cell.split("@")
            if letter == "s":
                continue
            number = seen.get((direction, letter), 0)
            seen[direction, letter] = number + 1
            kind = OpKind.F if letter == "f" else OpKind.B
            down = direction == "down"
            ops.append((Op(rank if down else num_ranks - 1 - rank, kind, number if down else num // 2 + number),))
        result.append(ops)
    return Written(num_ranks, num, num_ranks, result)
