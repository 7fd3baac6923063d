"""Run a program under given assumptions on messages: what stops it, which messages can be taken for each other, and what may
be said of its progress."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from pptrace.check.deadlock import Stop, stop_finding
from pptrace.check.events import Assumptions, Listed, in_order, inline, listed, message_events, order_events
from pptrace.check.findings import Finding, Verdict
from pptrace.check.messages import peer_code
from pptrace.check.progress import execute, owners
from pptrace.dependencies import Dependencies
from pptrace.model import OpKind

if TYPE_CHECKING:
    from pptrace.check.program import Program
    from pptrace.check.progress import Events
    from pptrace.model import Schedule


def untagged_findings(program: Program, events: Listed) -> list[Finding]:
    """Messages without tags that are taken for each other, or that only their order tells apart."""
    swapped: dict[tuple[int, int], list[tuple[int, int]]] = {}
    sorts: dict[tuple[int, int], set[tuple[int, int]]] = {}
    owner = owners(events.rank_starts)
    for send, receive in in_order(program, events):
        ranks = owner[send], owner[receive]
        kind, stage, _ = program.split(events.codes[send])
        sorts.setdefault(ranks, set()).add((kind, stage))
        if peer_code(program, events.codes[receive]) != events.codes[send]:
            swapped.setdefault(ranks, []).append((send, receive))
    findings = []
    for (sender, receiver), pairs in sorted(swapped.items()):
        send, receive = pairs[0]
        sent, wanted = program.op_of_code(events.codes[send]), program.op_of_code(events.codes[receive])
        cargo = "activation" if sent.kind is OpKind.SEND_F else "gradient"
        user = _user(program, events, receive)
        same = (sent.kind is OpKind.SEND_F) == (wanted.kind is OpKind.RECV_F) and abs(sent.stage - wanted.stage) == 1
        of_stage = "" if same else f" that stage {sent.stage} sends"
        sentence = (
            f"{user} would take the {cargo} of microbatch {sent.microbatch}{of_stage}: {len(pairs)} untagged messages from "
            f"rank {sender} to rank {receiver} are received in another order than they are sent"
        )
        place = program.place(events.positions[receive])
        remedy = f"receive in the order of the sends ({sent} comes before), or use tags"
        findings.append(Finding("message-order", place, sentence, (str(sent), str(wanted)), remedy))
    mixed = [ranks for ranks, kinds in sorted(sorts.items()) if len(kinds) > 1 and ranks not in swapped]
    if mixed:
        sender, receiver = mixed[0]
        what = ", ".join(f"{OpKind(kind).name} of stage {stage}" for kind, stage in sorted(sorts[mixed[0]]))
        more = f" (and the same on {len(mixed) - 1} more pairs of ranks)" if len(mixed) > 1 else ""
        sentence = (
            f"from rank {sender} to rank {receiver} go {what} without tags: they can be taken for each other{more}"
        )
        starts = program.rank_starts
        place = program.place(starts[sender])._replace(position=None, line=0, column=0)
        findings.append(Finding("ambiguous-messages", place, sentence, (), "give every message a tag"))
    return findings


def _user(program: Program, events: Listed, receive: int) -> str:
    """The op that a receive is for, as text."""
    kind, stage, number = program.split(events.codes[receive])
    rank = program.holder(stage, number)
    own = set(events.codes[events.rank_starts[rank] : events.rank_starts[rank + 1]])
    kinds = (OpKind.F,) if kind is OpKind.RECV_F else (OpKind.I, OpKind.B)
    codes = [program.base(kind, stage) + number for kind in kinds]
    return str(program.op_of_code(next((code for code in codes if code in own), codes[-1])))


class Compute(NamedTuple):
    """The ops of a program that an engine runs: as a schedule, what they wait for, and where each stands in the program."""

    schedule: Schedule
    deps: Dependencies
    origin: list[int]


def compute_of(program: Program) -> Compute:
    """The compute part of a program, as it is when called."""
    schedule, origin = program.compute_schedule()
    return Compute(schedule, Dependencies(schedule), origin)


def run_program(
    program: Program, compute: Compute, excused: set[int], assumed: Assumptions, findings: list[Finding]
) -> Verdict:
    """Run the program under the assumptions; add what stops it, and say what may be said of its progress."""
    own = program.has_messages
    schedule, deps, origin = compute
    forward_only = not program.kinds & {OpKind.B, OpKind.I, OpKind.W}
    sentences = assumed.sentences(inline=not own, forward_only=forward_only)
    stop = None
    by_messages = own or assumed != Assumptions()
    if by_messages:
        with_messages = listed(program) if own else inline(program, schedule, deps, origin)
        if not assumed.tags:
            findings += untagged_findings(program, with_messages)
        stuck = execute(message_events(program, with_messages, assumed))
        if stuck:
            events_of = lambda changed: message_events(program, changed, assumed)  # noqa: E731
            stop = Stop("message-deadlock", with_messages, stuck, events_of)
    if stop or not by_messages or deps.gathers:
        stuck = execute(order_events(schedule, deps))
        if stuck:
            order = Listed(schedule.codes, schedule.rank_starts, origin, schedule.pairs)
            stop = Stop("order-deadlock", order, stuck, lambda changed: _changed_order(schedule, changed))
    if stop is None:
        faults = any(finding.severity == "error" for finding in findings)
        mended = "with the faults above put right: " if faults else ""
        return Verdict(True, f"{mended}deadlock-free under these assumptions", sentences)
    codes = stop.listed.codes
    involved = {codes[event] for wait in stop.stuck.cycle for event in wait}
    if not involved & excused:
        findings.append(stop_finding(program, stop, assumed))
    return Verdict(False, "stuck under these assumptions", sentences)


def _changed_order(schedule: Schedule, changed: Listed) -> Events:
    bounds = changed.rank_starts
    orders = [changed.codes[first:last] for first, last in pairwise(bounds)]
    other = schedule.replace(orders, pairs=changed.pairs)
    return order_events(other, Dependencies(other))
