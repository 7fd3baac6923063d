"""What the checks of one program share: the findings so far, which ops a finding speaks about, and where every op stands.

It decides nothing. The program's codes are changed in place by whoever finds a fault and can put it right, so that one fault is
told once and the later checks see the rest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pptrace.check.findings import NOWHERE, Finding
from pptrace.check.program import GONE

if TYPE_CHECKING:
    from pptrace.check.program import Program
    from pptrace.model import OpKind


class Ledger:
    """The findings of one program.

    `excused` holds the codes of ops that a finding already speaks about: nothing more is said of them. `where` is the
    position of every code, -1 where it does not occur. `message_strays` are positions of messages whose number is out of
    range; `cut_ranks` are the ranks whose lists end too early.
    """

    def __init__(self, program: Program, findings: list[Finding]) -> None:
        self.program = program
        self.findings = findings
        self.excused: set[int] = set()
        self.message_strays: list[int] = []
        self.cut_ranks: set[int] = set()
        self.where: list[int] = []

    def report(
        self, code: str, position: int | None, sentence: str, *, ops: tuple[str, ...] = (), remedy: str = ""
    ) -> None:
        """Add a finding on the op at `position`, or on nothing in particular."""
        place = NOWHERE if position is None else self.program.place(position)
        self.findings.append(Finding(code, place, sentence, ops, remedy))

    def report_rank(self, code: str, rank: int, sentence: str, *, ops: tuple[str, ...] = (), remedy: str = "") -> None:
        """Add a finding on what a rank does not have, so that it stands nowhere in its list."""
        self.findings.append(Finding(code, self.program.rank_place(rank), sentence, ops, remedy))

    def take_out(self, position: int) -> None:
        """Take an op out of the program; nothing more is said of it."""
        self.excused.add(self.program.codes[position])
        self.program.codes[position] = GONE

    def put(self, position: int, code: int) -> None:
        """Let the op at `position` be the one of `code`, which is what was meant."""
        self.program.codes[position] = code
        self.program.texts.pop(position, None)
        if self.where:
            self.where[code] = position

    def row(self, kind: OpKind, stage: int) -> list[int]:
        """The positions of all microbatches of (kind, stage), -1 where one does not occur."""
        base = self.program.base(kind, stage)
        return self.where[base : base + self.program.width]
