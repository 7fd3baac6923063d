"""What rows and ops are called in a picture. It owns the short texts of cells and the marks that tell chunks and
directions apart; nothing here knows where a cell stands."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pptrace.model import OpKind

if TYPE_CHECKING:
    from pptrace.model import Schedule
    from pptrace.render.options import RenderOptions

KIND_TEXT = ("F", "B", "I", "W", "R", "G", "S")
"""By kind: the letter of a cell. The update has no microbatch: G is REDUCE, S is STEP."""

KIND_MEANING = {
    OpKind.F: "forward",
    OpKind.B: "full backward",
    OpKind.I: "backward for the input",
    OpKind.W: "backward for the weights",
    OpKind.R: "recomputation of a forward",
    OpKind.REDUCE: "gradient reduction (REDUCE)",
    OpKind.STEP: "optimizer step (STEP)",
}

UP_MARK = "^"
"""After a microbatch that runs on the copy of the model that goes up the ranks (two-way placements)."""


_NUMBER_OF_RANKS = re.compile(r"\bP\b|(?<=\d)P\b")


class Names:
    """The texts of one schedule's rows and ops under the reader's options.

    `by_stage`: rank r holds stage r and nothing else, so that rows are stages and cells need no stage (`F0`); otherwise
    rows are ranks and cells name the stage (`2F0`).
    """

    def __init__(self, schedule: Schedule, options: RenderOptions) -> None:
        placement = schedule.placement
        self.schedule = schedule
        self.first = options.first_number
        self.textbook = options.names == "textbook"
        self.by_stage = not placement.bidirectional and placement.ranks == tuple(range(schedule.num_ranks))
        self._num = schedule.num_microbatches
        self._width = self._num * schedule.num_steps
        self._num_stages = num_stages = schedule.num_stages
        self._block = self._width * num_stages
        self._first_boundary = OpKind.REDUCE * num_stages
        self._kinds = tuple(OpKind)
        self._first_up = (self._num + 1) // 2 if placement.bidirectional else self._num
        self._prefixes = [
            f"{'' if self.by_stage else stage + self.first}{letter}"
            for letter in KIND_TEXT
            for stage in range(num_stages)
        ]
        self._chunks = [placement.chunk_of(stage) for stage in range(num_stages)]
        numbers = [str(number + self.first) for number in range(self._num)]
        self._numbers = [n + (UP_MARK if i >= self._first_up else "") for i, n in enumerate(numbers)]
        # Steps without a flush run into one another, and no bar can tell them apart.
        self.numbers_steps = schedule.asynchronous and schedule.num_steps > 1
        self._all_numbers = self._numbers * schedule.num_steps
        if self.numbers_steps:
            self._all_numbers = [
                n + (f"@{step}" if step else "") for step in range(schedule.num_steps) for n in self._numbers
            ]

    def row(self, rank: int) -> str:
        """`stage 0` (counted from 1: `S1`) or `rank 0`."""
        if not self.by_stage:
            return f"rank {rank}"
        return self.stage(rank)

    def stage(self, stage: int) -> str:
        return f"S{stage + 1}" if self.first else f"stage {stage}"

    def explained(self, position: int) -> list[str]:
        """How rows and cells are to be read, with the op at `position` for an example (-1: none)."""
        texts = ["rows are stages, one per rank" if self.by_stage else "rows are ranks"]
        if position >= 0:
            op = self.schedule.op(position)
            where = "" if self.by_stage else f" of {self.stage(op.stage)}"
            number = (op.microbatch or 0) + self.first
            name = self.text(self.schedule.codes[position])
            texts.append(f"{name} is the {KIND_MEANING[op.kind]}{where} of microbatch {number}")
        if self.numbers_steps:
            texts.append("@1 is in optimizer step 1")
        return [*texts, *self.counting()]

    def counting(self) -> list[str]:
        """From which number on stages and microbatches are counted, if not from 0."""
        ranks = "" if self.by_stage else ", ranks from 0"
        return [f"stages and microbatches are counted from 1{ranks}"] if self.first else []

    def letters(self, text: str) -> str:
        """A sentence or a formula with textbooks' D for P, wherever it stands for the number of ranks, if so asked."""
        return _NUMBER_OF_RANKS.sub("D", text) if self.textbook else text

    def microbatch(self, microbatch: int, step: int = 0) -> str:
        """The number of a microbatch, with the mark of its direction, and of its step where no bar tells steps apart."""
        return self._all_numbers[step * self._num + microbatch]

    def owner(self, stage: int, microbatch: int) -> str:
        """The forward of an owner, as a cell names it."""
        return self._prefixes[OpKind.F * self.schedule.num_stages + stage] + self._numbers[microbatch]

    def kind(self, code: int) -> OpKind:
        return self._kinds[code // self._block]

    def text(self, code: int) -> str:
        """The text of an op's cell: `F0`, `2F0`, `2F5^`, `F0@1`; `G`, `S` for the update."""
        row, number = divmod(code, self._width)
        prefix = self._prefixes[row]
        return prefix if row >= self._first_boundary else prefix + self._all_numbers[number]

    def letter(self, code: int) -> str:
        """One letter for an op: its kind, small for every other chunk and for what goes up."""
        row = code // self._width
        letter = KIND_TEXT[row // self._num_stages]
        return letter.lower() if self.shade(code) % 2 else letter

    def shade(self, code: int) -> int:
        """Which of its rank's chunks (two-way: which copy) an op belongs to, for shades of its colour."""
        row, number = divmod(code, self._width)
        if number % self._num >= self._first_up:
            return 1
        return self._chunks[row % self._num_stages]
