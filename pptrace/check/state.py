"""What a rank keeps between ops: saved activations, their slots and lifetimes, and the version of the weights.

The order of a list alone is looked at here: an activation lives from its F to its B (to its W where the backward is split).
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, NamedTuple

from pptrace.check.findings import Finding, Place
from pptrace.model import Op, OpKind
from pptrace.rationals import text_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pptrace.check.program import Program
    from pptrace.timeline import Timeline


LIFETIME_CODES = ("released-for-another", "never-released", "used-after-release")
"""The findings that a lifetime of a trace can be."""


class StoredLifetime(NamedTuple):
    """The lifetime of an activation as a trace states it, in ticks. `end` and `released_by` are None where it never ends."""

    stage: int
    microbatch: int
    step: int
    start: int
    end: int | None
    released_by: Op | None = None


def state_findings(
    program: Program,
    *,
    buffers: int | None = None,
    max_activations: int | None = None,
    release: str = "own",
) -> list[Finding]:
    """Findings on kept state. `buffers`: slots of the ring per stage; `release`: "own", or "oldest" where a backward takes
    the oldest saved activation of its stage, whatever its own number is."""
    findings = list(_weight_versions(program))
    if buffers is not None or max_activations is not None or release == "oldest":
        for rank in range(program.num_ranks):
            events = list(_saves_and_releases(program, rank))
            if max_activations is not None:
                findings += _too_many(program, rank, events, max_activations)
            if buffers is not None:
                findings += _overwritten(program, rank, events, buffers)
            if release == "oldest":
                findings += _oldest(program, rank)
    return findings


def _saves_and_releases(program: Program, rank: int) -> Iterator[tuple[int, bool, int, int]]:
    """(position, whether it saves, stage, number) of every op of `rank` that saves or releases an activation."""
    starts = program.rank_starts
    for position in range(starts[rank], starts[rank + 1]):
        code = program.codes[position]
        if 0 <= code < program.base(OpKind.R):
            kind, stage, number = program.split(code)
            if kind is not OpKind.I:
                yield position, kind is OpKind.F, stage, number


def _too_many(program: Program, rank: int, events: list[tuple[int, bool, int, int]], limit: int) -> Iterator[Finding]:
    held = peak = 0
    first = None
    for position, saves, _, _ in events:
        held += 1 if saves else -1
        peak = max(peak, held)
        if held > limit and first is None:
            first = position
    if first is not None:
        yield Finding(
            "too-many-activations",
            program.place(first),
            f"rank {rank} holds {limit + 1} activations from {program.text(first)} on, {peak} at its peak; allowed are {limit}",
            (program.text(first),),
            "start the backwards earlier (a shorter warm-up), or allow more",
        )


def _overwritten(
    program: Program, rank: int, events: list[tuple[int, bool, int, int]], buffers: int
) -> Iterator[Finding]:
    slots: dict[tuple[int, int], int] = {}
    found = []
    for position, saves, stage, number in events:
        slot = (stage, number % program.num_microbatches % buffers)
        if saves:
            if slot in slots:
                found.append((position, stage, slots[slot], slot[1]))
            slots[slot] = number
        elif slots.get(slot) == number:
            del slots[slot]
    if found:
        position, stage, victim, slot_number = found[0]
        more = f" (and {len(found) - 1} more on rank {rank})" if len(found) > 1 else ""
        yield Finding(
            "activation-overwritten",
            program.place(position),
            f"{program.text(position)} overwrites slot {slot_number} of {buffers}, where the activation of microbatch "
            f"{victim % program.num_microbatches} of stage {stage} still waits for its backward{more}",
            tuple(program.text(at) for at, *_ in found),
            "give the rank more buffers: as many as it holds activations at its peak",
        )


def _oldest(program: Program, rank: int) -> Iterator[Finding]:
    queues: dict[int, list[int]] = {}
    starts = program.rank_starts
    found = []
    for position in range(starts[rank], starts[rank + 1]):
        code = program.codes[position]
        if not 0 <= code < program.base(OpKind.W):
            continue
        kind, stage, number = program.split(code)
        queue = queues.setdefault(stage, [])
        if kind is OpKind.F:
            queue.append(number)
        elif queue:
            oldest = queue.pop(0)
            if oldest != number:
                found.append((position, oldest % program.num_microbatches))
    if found:
        position, oldest = found[0]
        more = f" (and {len(found) - 1} more on rank {rank})" if len(found) > 1 else ""
        yield Finding(
            "released-for-another",
            program.place(position),
            f"{program.text(position)} would take and release the activation of microbatch {oldest}, the oldest one{more}",
            tuple(program.text(at) for at, _ in found),
            "run the backwards in the order of the forwards, or release by microbatch number",
        )


def _weight_versions(program: Program) -> Iterator[Finding]:
    """Under a flush: no F of the next step before the STEP of its stage. (A STEP before a backward is `structure`'s.)"""
    if program.asynchronous or OpKind.STEP not in program.kinds:
        return
    steps: dict[tuple[int, int, int], int] = {}
    for position, code in enumerate(program.codes):
        if code >= 0 and code // program.block == OpKind.STEP:
            _, stage, number = program.split(code)
            steps[program.rank_at(position), stage, number // program.num_microbatches] = position
    for rank in range(program.num_ranks):
        for position in range(*program.rank_starts[rank : rank + 2]):
            code = program.codes[position]
            if 0 <= code < program.base(OpKind.B):
                _, stage, number = program.split(code)
                update = steps.get((rank, stage, number // program.num_microbatches - 1), -1)
                if update > position:
                    names = (program.text(position), program.text(update))
                    yield Finding(
                        "weight-versions",
                        program.place(position),
                        f"{names[0]} comes before {names[1]}: it uses the weights of the step before, its backward does not",
                        names,
                        f"move it behind {names[1]}",
                    )
                    break


def lifetime_findings(timeline: Timeline, stored: Iterable[StoredLifetime]) -> list[Finding]:
    """Compare the lifetimes that a trace states with what its ops need."""
    schedule, where = timeline.schedule, timeline.dependencies.where
    coder = schedule.coder
    findings = []

    def time(tick: int) -> str:
        return text_of(Fraction(tick, timeline.ticks_per_unit))

    for life in stored:
        owner = f"stage {life.stage}, microbatch {life.microbatch}"
        codes = [
            coder.code_of(Op(life.stage, kind, life.microbatch, life.step)) for kind in (OpKind.W, OpKind.B, OpKind.I)
        ]
        users = [where[code] for code in codes if code < len(where) and where[code] >= 0]
        if not users:
            continue
        last = max(users, key=timeline.ends.__getitem__)
        op, rank = schedule.op(last), schedule.rank_at(last)
        place = Place(rank, last - schedule.rank_starts[rank])
        by = life.released_by
        if by is not None and (by.stage, by.microbatch, by.step) != (life.stage, life.microbatch, life.step):
            sentence = f"the activation of {owner} is released by {by}, not by its own {op}"
            findings.append(
                Finding("released-for-another", place, sentence, (str(by), str(op)), f"release it after {op}")
            )
        elif life.end is None or life.end > timeline.ends[last]:
            until = "never released" if life.end is None else f"held until {time(life.end)}"
            sentence = f"the activation of {owner} is {until}, though {op} ends at {time(timeline.ends[last])}"
            findings.append(Finding("never-released", place, sentence, (str(op),), f"release it after {op}"))
        elif life.end < timeline.ends[last]:
            sentence = (
                f"the activation of {owner} ends at {time(life.end)}, before {op} ends at {time(timeline.ends[last])}"
            )
            findings.append(Finding("used-after-release", place, sentence, (str(op),), f"keep it until {op} has ended"))
    return findings
