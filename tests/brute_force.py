"""An independent judge: it runs lists of ops cell by cell, moves values about as a training step would, and says whether every
(stage, microbatch) was computed once from the right data. Shares nothing with pptrace but the `Op` tuple."""

from __future__ import annotations

from collections import Counter


def is_right(rows, num_stages, num_microbatches, holder) -> bool:
    """`rows`: per rank a list of cells, a cell a tuple of ops. `holder(stage, microbatch)`: the rank that may run it.

    Sends are buffered and tagged. Without messages in `rows`, a value is wherever it is needed once it is computed.
    """
    return _Run(rows, num_stages, num_microbatches, holder).ends_well()


class _Wrong(Exception):
    pass


class _Run:
    def __init__(self, rows, num_stages, num_microbatches, holder):
        self.rows, self.S, self.M, self.holder = rows, num_stages, num_microbatches, holder
        self.with_messages = any(op.kind.name[:5] in ("SEND_", "RECV_") for row in rows for cell in row for op in cell)
        self.done = set()
        self.mail = Counter()
        self.inbox = set()

    def ends_well(self):
        next_cell = [0] * len(self.rows)
        moved = True
        try:
            while moved:
                moved = False
                for rank, row in enumerate(self.rows):
                    while next_cell[rank] < len(row) and self.is_ready(rank, row[next_cell[rank]]):
                        for op in row[next_cell[rank]]:
                            self.run(op)
                        next_cell[rank] += 1
                        moved = True
        except _Wrong:
            return False
        at_the_end = all(at == len(row) for at, row in zip(next_cell, self.rows, strict=True))
        return at_the_end and not +self.mail and not self.inbox and self.is_complete()

    def is_complete(self):
        for s in range(self.S):
            for m in range(self.M):
                full = (s, "B", m) in self.done
                halves = ((s, "I", m) in self.done) + ((s, "W", m) in self.done)
                if (s, "F", m) not in self.done or (full, halves) not in ((True, 0), (False, 2)):
                    return False
        return True

    def is_ready(self, rank, cell):
        return all(self.has_input(rank, op) for op in cell)

    def has_input(self, rank, op):
        """Whether the op can run now; False where it has to wait; _Wrong where waiting cannot help."""
        s, kind, m = op.stage, op.kind.name, op.microbatch
        if not (0 <= s < self.S and 0 <= m < self.M) or self.holder(s, m) != rank or (s, kind, m) in self.done:
            raise _Wrong
        if kind == "F":
            return s == 0 or self.value(rank, s, "F", m, s - 1, ("F",))
        if kind in ("B", "I"):
            if (s, "F", m) not in self.done:
                raise _Wrong
            return s == self.S - 1 or self.value(rank, s, "B", m, s + 1, ("B", "I"))
        if kind == "W":
            if (s, "I", m) not in self.done:
                raise _Wrong
            return True
        direction = kind[-1]
        other = s + 1 if kind in ("SEND_F", "RECV_B") else s - 1
        if not 0 <= other < self.S or self.holder(other, m) == rank:
            raise _Wrong
        if kind.startswith("SEND"):
            made = [(s, k, m) in self.done for k in (("F",) if direction == "F" else ("B", "I"))]
            if not any(made):
                raise _Wrong
            return True
        return self.mail[direction, other, m] > 0

    def value(self, rank, s, direction, m, source, kinds):
        if self.holder(source, m) == rank:
            if not any((source, k, m) in self.done for k in kinds):
                raise _Wrong
            return True
        if not self.with_messages:
            return any((source, k, m) in self.done for k in kinds)
        if (direction, s, m) not in self.inbox:
            raise _Wrong
        return True

    def run(self, op):
        s, kind, m = op.stage, op.kind.name, op.microbatch
        self.done.add((s, kind, m))
        if kind == "F":
            self.inbox.discard(("F", s, m))
        elif kind in ("B", "I"):
            self.inbox.discard(("B", s, m))
        elif kind.startswith("SEND"):
            self.mail[kind[-1], s, m] += 1
        elif kind.startswith("RECV"):
            source = s - 1 if kind == "RECV_F" else s + 1
            self.mail[kind[-1], source, m] -= 1
            self.inbox.add((kind[-1], s, m))
