"""What is legal but wasteful, with the saving: groups that leave bubbles, a warm-up one forward too long, late receives.

It compares timelines of the order with those of a better one, under the costs of the check (one unit an op where none are
given), and says nothing where nothing is saved.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from pptrace.analysis.advice import advice as registry_advice
from pptrace.check.findings import NOWHERE, Finding, Place, some_of
from pptrace.check.messages import peer_code
from pptrace.costs import Costs, values
from pptrace.durations import durations
from pptrace.errors import PptraceError
from pptrace.model import Coder, OpKind, Schedule
from pptrace.rationals import text_of
from pptrace.schedules.one_f_one_b import warmup_then_pairs
from pptrace.schedules.registry import Params, build
from pptrace.timeline import simulate_schedule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pptrace.check.program import Program
    from pptrace.check.runs import Compute
    from pptrace.timeline import Timeline

MOST_OPS = 200_000
"""Longer schedules are not compared with others: advice is not worth the time there."""


def advice_findings(program: Program, compute: Compute, costs: Costs | None) -> list[Finding]:
    """Advice for a schedule that runs to its end and has no errors."""
    schedule = compute.schedule
    if schedule.num_ops > MOST_OPS or schedule.num_steps > 1:
        return []
    chosen = costs or unit_costs(schedule)
    try:
        return [*_groups(schedule, chosen), *_warmup(schedule, chosen), *_late_receives(program, compute, chosen)]
    except PptraceError:  # the costs do not fit this schedule: whoever asks for times is told so
        return []


def unit_costs(schedule: Schedule) -> Costs:
    """Every op takes one unit; a full backward two where others are split."""
    splits = bool(schedule.kinds() & {OpKind.I, OpKind.W})
    return Costs(
        forward=values(1, per="op"),
        backward=values(2 if splits else 1, per="op"),
        weight_grad=values(1 if splits else Fraction(1, 2), per="op"),
    )


def _groups(schedule: Schedule, costs: Costs) -> Iterator[Finding]:
    named = schedule if isinstance(schedule.options.get("group"), int) else _as_interleaved(schedule)
    if named is None:
        return
    told = registry_advice(simulate_schedule(named, costs))
    if told:
        group = named.options["group"]
        saving, _, remedy = told.partition(": ")
        yield Finding("wasteful-groups", NOWHERE, f"groups of {group} leave bubbles: {saving}", (), remedy)


def _as_interleaved(schedule: Schedule) -> Schedule | None:
    """The registered interleaved schedule that has this order, or None. The group is read off the first rank."""
    chunks, num = schedule.num_chunks, schedule.num_microbatches
    if chunks < 2 or schedule.pairs or not schedule.codes or schedule.placement.bidirectional:
        return None
    first = schedule.codes[: schedule.rank_starts[1]]
    group = next((n for n, code in enumerate(first) if code // num != 0), 0)
    if not 0 < group <= num:
        return None
    try:
        named = build("interleaved", Params(schedule.num_ranks, num, chunks, group), max_ops=schedule.num_ops)
    except PptraceError:
        return None
    return named if named.codes == schedule.codes else None


def _warmup(schedule: Schedule, costs: Costs) -> Iterator[Finding]:
    """1f1b with a warm-up of P-r forwards instead of P-1-r."""
    num_ranks, num = schedule.num_ranks, schedule.num_microbatches
    if schedule.num_stages != num_ranks or schedule.kinds() != {OpKind.F, OpKind.B} or num <= 2:
        return
    coder = Coder(num_ranks, num)
    runs = [(coder.run(OpKind.F, stage), coder.run(OpKind.B, stage)) for stage in range(num_ranks)]
    longer = [warmup_then_pairs(*run, min(num, num_ranks - rank)) for rank, run in enumerate(runs)]
    if [code for order in longer for code in order] != schedule.codes:
        return
    orders = [warmup_then_pairs(*run, min(num, num_ranks - 1 - rank)) for rank, run in enumerate(runs)]
    shorter = schedule.replace(orders)
    one, other = simulate_schedule(schedule, costs), simulate_schedule(shorter, costs)
    saved = [a - b for a, b in zip(_peaks(schedule), _peaks(shorter), strict=True)]
    if max(other.ends) > max(one.ends) or not any(saved):
        return
    sentence = (
        f"the warm-up is one forward too long: the ranks hold {_words(_peaks(schedule))} activations for an elapsed time of "
        f"{_elapsed(one)}; one forward fewer before the first backward (P-1-r on rank r) holds {_words(_peaks(shorter))} "
        f"and takes {_elapsed(other)}"
    )
    yield Finding("long-warmup", Place(0), sentence, (), "start the backwards one forward earlier")


def _peaks(schedule: Schedule) -> list[int]:
    peaks = []
    for rank in range(schedule.num_ranks):
        held = peak = 0
        for op in schedule.order(rank):
            held += 1 if op.kind is OpKind.F else -1
            peak = max(peak, held)
        peaks.append(peak)
    return peaks


def _words(numbers: list[int]) -> str:
    return " ".join(map(str, numbers[:16])) + (" ..." if len(numbers) > 16 else "")


def _elapsed(timeline: Timeline) -> str:
    return text_of(Fraction(max(timeline.ends) - min(timeline.starts), timeline.ticks_per_unit))


def _late_receives(program: Program, compute: Compute, costs: Costs) -> Iterator[Finding]:
    """Receives that are posted after their message could have left, where a message travels only from its receive on."""
    if not costs.has_communication or not program.has_messages or costs.link != "latency":
        return
    late, elapsed, per_unit = _Posted(program, compute, costs).run()
    soonest = simulate_schedule(compute.schedule, costs)
    saved = elapsed - max(soonest.ends)
    if saved <= 0 or not late:
        return
    names = [program.text(position) for position in late]
    sentence = (
        f"{some_of(names)} {'is' if len(names) == 1 else 'are'} posted after the message could have left; where a message "
        f"travels only once its receive is posted, that costs {text_of(Fraction(saved, per_unit))} of "
        f"{text_of(Fraction(elapsed, per_unit))}"
    )
    yield Finding("late-receive", program.place(late[0]), sentence, tuple(names), "post each receive an op earlier")


class _Posted:
    """The times of a listing whose messages leave when sent and posted: arrival = max(send, post) + latency."""

    def __init__(self, program: Program, compute: Compute, costs: Costs) -> None:
        self.program = program
        self.timing = durations(compute.schedule, costs)
        self.new_of = {old: new for new, old in enumerate(compute.origin)}
        self.inputs = compute.deps.inputs
        self.origin = compute.origin
        self.where = program.where()
        self.reached: dict[int, int] = {}  # by position: when its rank came to a message, or ended an op

    def run(self) -> tuple[list[int], int, int]:
        """(positions of late receives, elapsed ticks, ticks per unit)."""
        program = self.program
        at = list(program.rank_starts[:-1])
        now = [0] * program.num_ranks
        moved = True
        while moved:
            moved = False
            for rank in range(program.num_ranks):
                while at[rank] < program.rank_starts[rank + 1]:
                    end = self._step(at[rank], now[rank])
                    if end is None:
                        break
                    self.reached[at[rank]] = now[rank] = end
                    at[rank] += 1
                    moved = True
        late = []
        for position, posted in sorted(self.reached.items()):
            code = program.codes[position]
            if code >= 0 and code // program.block in (OpKind.RECV_F, OpKind.RECV_B):
                sent = self.reached.get(self.where[peer_code(program, code)])
                if sent is not None and posted > sent:
                    late.append(position)
        return late, max(now), self.timing.ticks_per_unit

    def _step(self, position: int, now: int) -> int | None:
        """When the rank is through with `position`, or None while something that it waits for is not known."""
        new = self.new_of.get(position)
        if new is None:
            return now
        start = now
        members = (position, position + 1) if position in self.program.pairs else (position,)
        for member in members:
            producer = self.inputs[self.new_of[member]]
            if producer < 0:
                continue
            made = self.origin[producer]
            receive = self.where[_receive_of(self.program, self.program.codes[member])]
            if receive < 0:
                arrival = self.reached.get(made)
            else:
                send = self.where[peer_code(self.program, self.program.codes[receive])]
                ends = self.reached.get(send), self.reached.get(receive)
                travel = self.timing.latencies[producer] if self.timing.latencies else 0
                arrival = None if None in ends else max(end for end in ends if end is not None) + travel
            if arrival is None:
                return None
            start = max(start, arrival)
        if position - 1 in self.program.pairs:
            return now  # its block has just ended
        return start + self.timing.ticks[new]


def _receive_of(program: Program, code: int) -> int:
    """The code of the receive that brings the input of a compute op."""
    kind, rest = divmod(code, program.block)
    return (OpKind.RECV_F if kind == OpKind.F else OpKind.RECV_B) * program.block + rest
