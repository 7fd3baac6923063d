"""Do the messages of a listing fit its ops and each other? Sends, receives, their numbers and their order; no progress.

The messages of a program are checked against the ops that produce and need them. What is found is taken out or put right,
as in `structure`.
"""

from __future__ import annotations

from operator import gt
from typing import TYPE_CHECKING, NamedTuple

from pptrace.check.findings import Finding, some_of
from pptrace.check.numbering import likelier
from pptrace.check.program import GONE
from pptrace.model import MESSAGE_KINDS, OpKind

if TYPE_CHECKING:
    from pptrace.check.ledger import Ledger
    from pptrace.check.program import Program


class Lane(NamedTuple):
    """Everything that goes from one stage to a neighbour: activations (F) up, gradients (B) down."""

    sender: int
    receiver: int
    forward: bool

    @property
    def send(self) -> OpKind:
        return OpKind.SEND_F if self.forward else OpKind.SEND_B

    @property
    def receive(self) -> OpKind:
        return OpKind.RECV_F if self.forward else OpKind.RECV_B

    @property
    def cargo(self) -> str:
        return "activation" if self.forward else "gradient"


def peer_steps(program: Program) -> list[int]:
    """By kind: how far the code of a message's other end is from its own; 0 for what is no message."""
    steps = [0] * len(OpKind)
    up, down = program.block + program.width, program.block - program.width
    steps[OpKind.SEND_F], steps[OpKind.RECV_F] = up, -up
    steps[OpKind.SEND_B], steps[OpKind.RECV_B] = down, -down
    return steps


def peer_code(program: Program, code: int) -> int:
    """The code of the receive of a send, or of the send of a receive."""
    return code + peer_steps(program)[code // program.block]


def lanes(program: Program) -> list[Lane]:
    """The lanes between stages that are on different ranks."""
    found = []
    for stage in range(program.num_stages - 1):
        if program.holders[stage] >= 0 and program.holders[stage + 1] >= 0 and program.crosses(stage):
            found += [Lane(stage, stage + 1, True), Lane(stage + 1, stage, False)]
    return found


class Messages:
    """The message findings of a program that has sends and receives."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self.program = ledger.program
        self.where: list[int] = []

    def run(self) -> None:
        strays = self._without_peer()
        self.where = self.program.where()
        strays += self._doubles()
        if strays:
            self._numbers(strays)
            self.where = self.program.where()
        for lane in lanes(self.program):
            if not self._is_fine(lane):
                self._lane(lane)

    def _row(self, kind: OpKind, stage: int) -> list[int]:
        base = self.program.base(kind, stage)
        return self.where[base : base + self.program.width]

    def _ops(self, stage: int, forward: bool) -> list[int]:
        """The positions of the ops that a lane's messages come from or go to."""
        if forward:
            return self._row(OpKind.F, stage)
        return list(map(max, self._row(OpKind.B, stage), self._row(OpKind.I, stage)))

    def _without_peer(self) -> list[int]:
        """Take out messages that no other rank can send or take; give back those with a wrong microbatch number."""
        program = self.program
        open_rows: set[tuple[OpKind, int]] = set()
        for lane in lanes(program):
            open_rows |= {(lane.send, lane.sender), (lane.receive, lane.receiver)}
        rows = {row for row in set(map(program.width.__rfloordiv__, program.codes)) if row >= 0}
        closed = {
            row
            for row in rows
            if row // program.num_stages in MESSAGE_KINDS
            and (OpKind(row // program.num_stages), row % program.num_stages) not in open_rows
        }
        for row in closed:
            positions = [i for i, code in enumerate(program.codes) if code >= 0 and code // program.width == row]
            kind, stage = OpKind(row // program.num_stages), row % program.num_stages
            names = tuple(program.text(position) for position in positions)
            self._say("message-without-peer", positions[0], f"{some_of(names)}: {self._why_closed(kind, stage)}", names)
            for position in positions:
                self.ledger.take_out(position)
        return [position for position in self.ledger.message_strays if self._has_lane(position, open_rows)]

    def _has_lane(self, position: int, open_rows: set[tuple[OpKind, int]]) -> bool:
        """Whether a message with a wrong number is of a row that has messages; if not, that is its fault."""
        op = self.program.flat[position]
        if op is None or (op.kind, op.stage) in open_rows:
            return op is not None
        self._say("message-without-peer", position, f"{op}: {self._why_closed(op.kind, op.stage)}", (str(op),))
        return False

    def _why_closed(self, kind: OpKind, stage: int) -> str:
        program = self.program
        other = stage + (1 if kind in (OpKind.SEND_F, OpKind.RECV_B) else -1)
        if not 0 <= other < program.num_stages:
            return f"stage {stage} is the {'first' if other < 0 else 'last'}, there is no stage on that side"
        return f"stages {stage} and {other} are on the same rank, so there is no message"

    def _doubles(self) -> list[int]:
        program = self.program
        return [
            position
            for position, code in enumerate(program.codes)
            if code >= 0 and self.where[code] != position and code // program.block in MESSAGE_KINDS
        ]

    def _numbers(self, strays: list[int]) -> None:
        """Doubled and out-of-range messages, each beside one of the same row that is missing."""
        program = self.program
        for position in strays:
            code = program.codes[position]
            op = program.flat[position] if code == GONE else program.op_of_code(code)
            if op is None or not 0 <= op.step < program.num_steps:
                continue
            base = program.base(op.kind, op.stage) + op.step * program.num_microbatches
            found = self.where[base : base + program.num_microbatches]
            absent = [n for n, at in enumerate(found) if at < 0 and base + n not in self.ledger.excused]
            text = program.text(position)
            if absent and len(absent) < program.num_microbatches:
                name = str(program.op_of_code(base + absent[0]))
                how = "occurs twice" if code >= 0 else "is out of range"
                second = f"{text} {how} and {name} never"
                self._say("misnumbered-message", position, second, (text, name), f"one of them is probably {name}")
                excused = {base + absent[0], code}
                self.ledger.excused |= excused | {peer_code(program, c) for c in excused if c >= 0}
                program.codes[position] = base + absent[0]
                self.where[base + absent[0]] = position
            elif code >= 0:
                first = self.where[code]
                keep = self._nearer_to_its_op(first, position, code)
                extra = position if keep == first else first
                self._say("doubled-message", extra, f"{text} occurs twice", (text,), "leave one of them out")
                program.codes[extra] = GONE
                self.where[code] = keep
            else:
                last = program.num_microbatches - 1
                self._say(
                    "microbatch-range", position, f"{text}: microbatch {op.microbatch} is not one of 0..{last}", (text,)
                )

    def _nearer_to_its_op(self, one: int, other: int, code: int) -> int:
        """Which of two equal messages is the right one: a send behind its op, a receive before it, and then the nearer."""
        program = self.program
        kind, stage, number = program.split(code)
        forward = kind in (OpKind.SEND_F, OpKind.RECV_F)
        op = self._ops(stage, forward)[number]
        if op < 0:
            return likelier(program, one, other, number % program.num_microbatches)
        ahead = kind in (OpKind.RECV_F, OpKind.RECV_B)
        return min((one, other), key=lambda at: ((at < op) is not ahead, abs(at - op)))

    def _is_fine(self, lane: Lane) -> bool:
        made, sent = self._ops(lane.sender, lane.forward), self._row(lane.send, lane.sender)
        taken, used = self._row(lane.receive, lane.receiver), self._ops(lane.receiver, lane.forward)
        if -1 in sent or -1 in taken:
            return not lane.forward and max(sent) < 0 and max(taken) < 0 and max(made) < 0 and max(used) < 0
        return not any(map(gt, made, sent)) and not any(map(gt, taken, used))

    def _lane(self, lane: Lane) -> None:
        """Say what is wrong on one lane; the same fault of several microbatches is one finding."""
        program, excused = self.program, frozenset(self.ledger.excused)
        made, sent = self._ops(lane.sender, lane.forward), self._row(lane.send, lane.sender)
        taken, used = self._row(lane.receive, lane.receiver), self._ops(lane.receiver, lane.forward)
        at_send, at_receive = program.base(lane.send, lane.sender), program.base(lane.receive, lane.receiver)
        faults: dict[str, list[tuple[int, str, str]]] = {}
        for number in range(program.width):
            maker, send, receive, user = made[number], sent[number], taken[number], used[number]
            send_name = str(program.op_of_code(at_send + number))
            receive_name = str(program.op_of_code(at_receive + number))
            short = receive_name.removeprefix(str(lane.receiver))
            ends = {program.codes[op] for op in (maker, user) if op >= 0}
            if ends & excused or at_send + number in excused or at_receive + number in excused:
                continue
            if user >= 0 and receive < 0 and maker >= 0:
                end = f"; {send_name} is sent and never taken" if send >= 0 else f", and there is no {send_name}"
                sentence = f"{program.text(user)} runs without a {short}{end}"
                faults.setdefault("missing-receive", []).append((user, sentence, receive_name))
            elif send < 0 <= maker and self._is_cut_off_after(maker):
                continue
            elif send < 0 and receive >= 0 and maker >= 0:
                sentence = f"{receive_name} waits for {send_name}, which nobody sends"
                faults.setdefault("missing-send", []).append((receive, sentence, send_name))
            elif 0 <= send < maker:
                sentence = f"{send_name} comes before {program.text(maker)}, whose result it sends"
                faults.setdefault("send-before-op", []).append((send, sentence, send_name))
            if 0 <= user < receive:
                other = self._in_hand(taken, used, user)
                if other >= 0:
                    microbatch = other % program.num_microbatches
                    sentence = f"{program.text(user)} would take the {lane.cargo} of microbatch {microbatch}"
                    faults.setdefault("receive-of-another", []).append((user, sentence, receive_name))
                else:
                    sentence = f"{program.text(user)} runs before {receive_name}, which brings its input"
                    faults.setdefault("receive-after-op", []).append((user, sentence, receive_name))
        for code, found in faults.items():
            found.sort()
            position, sentence, _ = found[0]
            more = f" (and {len(found) - 1} more like it)" if len(found) > 1 else ""
            names = tuple(name for _, _, name in found)
            self._say(code, position, sentence + more, names, _REMEDIES[code].format(names[0]))
            self.ledger.excused |= self._codes_of(lane, found)

    def _is_cut_off_after(self, position: int) -> bool:
        """Whether an op is the last one of a list whose end is cut off, so that its message is cut off with it."""
        program = self.program
        rank = program.rank_at(position)
        first_message = OpKind.SEND_F * program.block
        return rank in self.ledger.cut_ranks and not any(
            0 <= code < first_message for code in program.codes[position + 1 : program.rank_starts[rank + 1]]
        )

    def _codes_of(self, lane: Lane, found: list[tuple[int, str, str]]) -> set[int]:
        """The codes of both ends of the messages that faults speak about."""
        program = self.program
        numbers = {program.codes[position] % program.width for position, _, _ in found}
        return {program.base(lane.send, lane.sender) + number for number in numbers} | {
            program.base(lane.receive, lane.receiver) + number for number in numbers
        }

    @staticmethod
    def _in_hand(taken: list[int], used: list[int], user: int) -> int:
        """The microbatch that was received last before `user` and is not used yet, or -1."""
        held = [(at, n) for n, at in enumerate(taken) if 0 <= at < user and not 0 <= used[n] < user]
        return max(held)[1] if held else -1

    def _say(self, code: str, position: int, sentence: str, ops: tuple[str, ...], remedy: str = "") -> None:
        self.ledger.findings.append(Finding(code, self.program.place(position), sentence, ops, remedy))


_REMEDIES = {
    "missing-receive": "add {} before it",
    "missing-send": "add {} after the op that produces it",
    "send-before-op": "move {} behind that op",
    "receive-of-another": "put {} before it",
    "receive-after-op": "put {} before it",
}
