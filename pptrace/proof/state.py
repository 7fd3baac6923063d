"""What a machine holds while a schedule runs: moments, activations, messages, gradients, each with its owner. It checks
nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from pptrace.model import Op, Schedule
    from pptrace.proof.arithmetic import Matrix
    from pptrace.proof.layers import Parameters, Pending, Saved

Owner = tuple[int, int]
"""(step, microbatch)."""
Copy = tuple[int, int]
"""(rank, stage): one copy of a stage's weights."""
NEVER_TIMED = -1
AFTER_ALL = 2**63
"""Ticks: of an order without times, and later than any."""


class Moment(NamedTuple):
    """When an op runs: `text` for faults (`t=3`, `op 4 of rank 1`), and in ticks its start, its end and when its result arrives
    at the next op; NEVER_TIMED where the order has no times."""

    text: str
    start: int = NEVER_TIMED
    end: int = NEVER_TIMED
    arrival: int = NEVER_TIMED


class Activation(NamedTuple):
    """What a slot holds. `x` until a recomputation where there is one, `saved` from F to B or I, `pending` from I to W.
    `at_loss` is the loss gradient on the last stage. `ready` is the tick from which it may be used."""

    owner: Owner
    version: int
    ready: int
    x: Matrix | None = None
    saved: Saved | None = None
    pending: Pending | None = None
    at_loss: Matrix | None = None


class Message(NamedTuple):
    """An output (or a gradient) on its way to the next (or previous) stage."""

    owner: Owner
    content: Matrix
    arrival: int


class Gradient(NamedTuple):
    """A sum of microbatch gradients, and the microbatches in it, in the order in which they were added. `ready` is the tick
    from which it is complete."""

    total: Parameters
    owners: tuple[Owner, ...]
    ready: int = NEVER_TIMED


def owner_of(op: Op) -> Owner:
    return op.step, op.microbatch or 0


def owner_text(owner: Owner, *, short: bool = False) -> str:
    """`microbatch 3`, or `microbatch 3@1` in a later step."""
    step = f"@{owner[0]}" if owner[0] else ""
    return f"{'' if short else 'microbatch '}{owner[1]}{step}"


def copies_of(schedule: Schedule) -> list[Copy]:
    """Every (rank, stage) that holds weights and is used, by stage."""
    placement, num = schedule.placement, schedule.num_microbatches
    return [
        (rank, stage)
        for stage in range(schedule.num_stages)
        for rank in sorted({placement.rank_of(stage, microbatch, num) for microbatch in range(num)})
    ]


class Mailboxes:
    """Messages that wait for the op that consumes them, by (rank, stage, direction). `tagged` ones are found by their owner;
    otherwise whoever comes takes the first that arrived."""

    def __init__(self, *, tagged: bool) -> None:
        self.tagged = tagged
        self.boxes: dict[tuple[int, int, str], dict[Owner, Message]] = {}

    def put(self, place: tuple[int, int, str], message: Message) -> None:
        self.boxes.setdefault(place, {})[message.owner] = message

    def has(self, place: tuple[int, int, str], owner: Owner) -> bool:
        box = self.boxes.get(place, {})
        return owner in box if self.tagged else bool(box)

    def take(self, place: tuple[int, int, str], owner: Owner) -> Message | None:
        box = self.boxes.get(place, {})
        return box.pop(owner if self.tagged else next(iter(box), owner), None)
