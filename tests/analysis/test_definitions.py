"""Every figure of the analysis beside its definition, taken word by word and worked out tick by tick or op by op, on random
orders: any placement, split and recomputed backwards, overlapped pairs, updates, every kind of link."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from functools import cache
from itertools import pairwise
from random import Random

import pytest
from test_engine_properties import some_costs, some_number, some_order, some_work

from pptrace.analysis.bytes_held import bytes_held
from pptrace.analysis.report import Report
from pptrace.costs import Costs, Sizes, values
from pptrace.deadlock import DeadlockError
from pptrace.model import Op, OpKind
from pptrace.proof.prove import prove
from pptrace.schedules.registry import Params, build
from pptrace.schedules.updates import with_updates
from pptrace.timeline import simulate_schedule

WORK = "FBIWR"
LINKS = ("latency", "serial", "blocking")


class Case:
    """A random timeline as plain data: per rank (name of the kind, op, start, end, position), in the order of its list."""

    def __init__(self, seed: int) -> None:
        random = Random(f"definitions {seed}")
        while True:
            self.work = some_work(random)
            order = some_order(random, self.work)
            steps = random.choice([0, 0, 1, 2])
            self.schedule = with_updates(order, steps, joint=random.random() < 0.5) if steps else order
            costs = some_costs(random, self.schedule)._replace(link=LINKS[seed % 3])
            if seed % 2:  # small whole numbers, so that many ops begin and end at one instant
                costs = costs._replace(
                    forward=values(1),
                    backward=values(2),
                    weight_grad=values(random.choice([0, 1])),
                    microbatch_scale=(),
                )
            try:
                self.timeline = simulate_schedule(self.schedule, costs)
                break
            except DeadlockError:  # a random pair, or a link that holds its ranks, can lock
                continue
        self.costs, self.report = costs, Report(self.timeline)
        self.ranks = range(self.schedule.num_ranks)
        self.lists = [
            [(span.op.kind.name, span.op, span.start, span.end, span.position) for span in self.timeline.spans(rank)]
            for rank in self.ranks
        ]
        self.blocks = set() if costs.overlap == "split" else self.schedule.pairs
        compute = [span for spans in self.lists for span in spans if span[0] in WORK]
        self.begin, self.end = min(span[2] for span in compute), max(span[3] for span in compute)
        self.at = {span[1]: span for spans in self.lists for span in spans}

    def ticks(self):
        """One instant of every stretch in which nothing begins, ends, leaves or arrives, and how long the stretch is."""
        times = {
            *self.timeline.starts,
            *self.timeline.ends,
            *self.timeline.arrivals,
            *self.timeline.departures.values(),
        }
        inside = sorted(time for time in times if self.begin <= time <= self.end)
        return [(a, b - a) for a, b in pairwise(inside)]

    def running(self, rank, tick):
        """The first op of what `rank` computes at `tick`, or None."""
        found = [span for span in self.lists[rank] if span[0] in WORK and span[2] <= tick < span[3]]
        return min(found, key=lambda span: span[4], default=None)

    def input_of(self, op):
        """The op whose message `op` needs, where it needs one: from the stage before, or from the one after."""
        kind, stage = op.kind.name, op.stage
        if kind == "F":
            return self.at.get(op._replace(stage=stage - 1))
        if kind in "BI" or (kind == "R" and not self.schedule.early_recompute):
            after = [self.at.get(op._replace(stage=stage + 1, kind=k)) for k in (OpKind.B, OpKind.I)]
            return next((span for span in after if span is not None), None)
        return None


@cache
def case(seed):
    return Case(seed)


SEEDS = range(120)


@pytest.mark.parametrize("seed", SEEDS)
def test_busy_and_idle_are_the_ticks_in_which_a_rank_computes_or_does_not(seed):
    this = case(seed)
    metrics = this.report.metrics
    busy = [sum(length for tick, length in this.ticks() if this.running(rank, tick)) for rank in this.ranks]
    elapsed = this.end - this.begin
    inner = []
    for rank in this.ranks:
        own = [span for span in this.lists[rank] if span[0] in WORK]
        first, last = (min(s[2] for s in own), max(s[3] for s in own)) if own else (0, 0)
        inner.append(last - first - busy[rank])
    assert metrics["elapsed"].value == (elapsed, 1)
    assert [value.numerator for value in metrics["ideal"].values] == busy
    assert [value.numerator for value in metrics["bubble_time"].values] == [elapsed - own for own in busy]
    assert [value.numerator for value in metrics["internal_idle"].values] == inner
    idle, total = sum(elapsed - own for own in busy), len(busy) * elapsed
    assert Fraction(*metrics["bubble_over_elapsed"].value) == Fraction(idle, total)
    assert Fraction(*metrics["bubble_over_ideal"].value) == Fraction(idle, sum(busy))
    assert Fraction(*metrics["utilization"].value) == 1 - Fraction(idle, total)


def cause_at(this, rank, tick):
    """Why `rank` does nothing at `tick`, by DESIGN's words: before its first op, after its last, or what its next op lacks."""
    own = [span for span in this.lists[rank] if span[0] in WORK]
    later = [span for span in own if span[2] > tick]
    if not later or not own:
        return "drain" if own else "fill"
    if all(span[2] > tick for span in own):
        return "fill"
    following = later[0]
    members = [following] + [span for span in own if span[4] == following[4] + 1 and following[4] in this.blocks]
    before = max(span[4] for span in own if span[3] <= tick)
    updates = [s for s in this.lists[rank] if before < s[4] < following[4] and s[0] not in WORK]
    if any(tick < update[3] for update in updates):
        return "barrier"
    needed = [
        (this.timeline.arrivals[p[4]], m[0], p) for m in reversed(members) if (p := this.input_of(m[1])) is not None
    ]
    if needed:
        arrival, kind, producer = max(needed, key=lambda item: item[0])  # of several, what comes last
        if tick < producer[3]:
            return "wait-forward" if kind == "F" else "wait-backward"
        if tick < this.timeline.departures.get(producer[4], 0):  # only a serial link has a line to stand in
            return "exposed communication" if this.costs.link == "blocking" else "head-of-line"
        if tick < arrival:
            return "exposed communication"
    return "exposed communication" if this.costs.link == "blocking" else "chosen delay"


@pytest.mark.parametrize("seed", SEEDS)
def test_every_idle_tick_has_the_cause_of_its_definition(seed):
    this = case(seed)
    for rank in this.ranks:
        found = Counter()
        for tick, length in this.ticks():
            if this.running(rank, tick) is None:
                found[cause_at(this, rank, tick)] += length
        told = {cause: ticks for cause, ticks in this.report.idle.parts[rank].items() if ticks}
        assert told == {cause: ticks for cause, ticks in found.items() if ticks}
    if this.costs.link != "blocking":
        assert all(parts["chosen delay"] == 0 for parts in this.report.idle.parts)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_budget_compares_with_the_same_order_timed_without_communication(seed):
    """Messages that hold both their ranks hold none for it."""
    this = case(seed)
    silent = simulate_schedule(this.schedule, this.costs.without_communication()._replace(link="latency"))
    scale = Fraction(this.timeline.ticks_per_unit, silent.ticks_per_unit)
    times = Report(silent).metrics["elapsed"].value.numerator * scale
    busy = [value.numerator for value in this.report.metrics["ideal"].values]
    elapsed, num_ranks = this.end - this.begin, len(busy)
    budget = this.report.idle.budget
    assert budget["imbalance"] == sum(max(busy) - own for own in busy)
    assert budget["exposed communication"] == num_ranks * (elapsed - times)
    assert budget["schedule"] == num_ranks * (times - max(busy))
    assert budget["chosen delay"] == 0
    assert budget["total"] == num_ranks * elapsed - sum(busy)
    assert this.report.metrics["exposed_comm"].value.numerator == elapsed - times


@pytest.mark.parametrize("seed", SEEDS)
def test_activations_held_are_those_whose_forward_has_begun_and_whose_backward_has_not_ended(seed):
    """From F (with recomputation R) to the end of B, or of W; the input kept for R from F to the end of B, or of I."""
    this = case(seed)
    recomputed = any(span[0] == "R" for spans in this.lists for span in spans)

    def alive(rank, tick, kind):
        owners = []
        for name, op, start, _, _ in this.lists[rank]:
            if name != ("R" if kind == "activation" and recomputed else "F") or start > tick:
                continue
            last = (
                this.at.get(op._replace(kind=OpKind.B))
                or this.at[op._replace(kind=OpKind.W if kind == "activation" else OpKind.I)]
            )
            if tick < last[3]:
                owners.append((op.stage, op.microbatch, op.step))
        return sorted(owners)

    times = sorted({*this.timeline.starts, *this.timeline.ends})
    for rank in this.ranks:
        for kind in ("activation", *(["input"] if recomputed else [])):
            curve = dict(this.report.memory.held(rank, kind))
            count = None
            for tick in times:
                count = curve.get(tick, count)
                assert count == len(alive(rank, tick, kind))
        peak = this.report.memory.peaks[rank]
        assert peak.held == max(len(alive(rank, tick, "activation")) for tick in times)
        assert peak.at == next(tick for tick in times if len(alive(rank, tick, "activation")) == peak.held)
        assert sorted(peak.owners) == alive(rank, peak.at, "activation")


def chain(this, op, after, memo):
    """The longest chain that ends with the end of `op`, latencies included."""
    if op not in memo:
        awaited = this.at[op]
        ahead = 0
        for other in after[op]:
            travels = other.stage != op.stage
            arrives = this.timeline.latencies[this.at[other][4]] if travels and this.timeline.latencies else 0
            ahead = max(ahead, chain(this, other, after, memo) + arrives)
        memo[op] = ahead + awaited[3] - awaited[2]
    return memo[op]


def without_pairs(seed):
    """A case of one step without overlap, on which any order of the same ops can be tried."""
    random = Random(f"bounds {seed}")
    work = some_work(random)
    schedule = some_order(random, work)
    schedule = schedule.replace(
        [[schedule.codes[i] for i in schedule.positions(rank)] for rank in range(schedule.num_ranks)], pairs=()
    )
    return random, work, schedule, some_costs(random, schedule)._replace(link="latency")


@pytest.mark.parametrize("seed", range(60))
def test_the_lower_bound_is_its_definition_and_no_order_is_shorter(seed):
    random, work, schedule, costs = without_pairs(seed)
    this = Case.__new__(Case)
    this.schedule, this.timeline = schedule, simulate_schedule(schedule, costs)
    this.at = {span.op: (span.op.kind.name, span.op, span.start, span.end, span.position) for span in this.timeline}
    bound = Report(this.timeline).metrics["lower_bound"].value.numerator
    before: dict[Op, list[Op]] = {op: [] for op in work.after}
    for op, awaited in work.after.items():
        for other in awaited:
            before[other].append(op)
    ends: dict[Op, int] = {}
    length = {op: span[3] - span[2] for op, span in this.at.items()}
    heads = {op: chain(this, op, work.after, ends) - length[op] for op in work.after}

    def tail(op, memo):
        if op not in memo:
            memo[op] = 0
            for other in before[op]:
                travels = other.stage != op.stage
                arrives = this.timeline.latencies[this.at[op][4]] if travels and this.timeline.latencies else 0
                memo[op] = max(memo[op], arrives + length[other] + tail(other, memo))
        return memo[op]

    tails: dict[Op, int] = {}
    groups: dict[object, list[Op]] = {}
    for op, rank in work.ranks.items():
        tail(op, tails)
        groups.setdefault(rank, []).append(op)
        groups.setdefault((rank, op.stage), []).append(op)
    wanted = max(heads[op] + length[op] + tails[op] for op in work.after)
    for ops in groups.values():
        wanted = max(wanted, min(heads[o] for o in ops) + sum(length[o] for o in ops) + min(tails[o] for o in ops))
    assert bound == wanted
    for _ in range(6):
        other = some_order(random, work)
        orders = [[other.codes[i] for i in other.positions(rank)] for rank in range(other.num_ranks)]
        tried = simulate_schedule(other.replace(orders, pairs=()), costs)
        assert tried.ticks_per_unit == this.timeline.ticks_per_unit
        assert Report(tried).metrics["elapsed"].value.numerator >= bound


def pieces(this, sizes):
    """(rank, part, from, to, bytes) of everything that a rank holds, as DESIGN section 5 lists it."""
    recomputed = any(span[0] == "R" for spans in this.lists for span in spans)
    placement, final = this.schedule.placement, max(this.timeline.ends)
    rank_of = {span[4]: rank for rank in this.ranks for span in this.lists[rank]}

    def of(name, rank):
        size = getattr(sizes, name).numbers[0]
        return size / (1 if placement.bidirectional else len(placement.stages(rank)))

    for rank in this.ranks:
        for stage in placement.stages(rank):
            yield rank, "weights", this.begin, final + 1, of("weights", rank)
            yield rank, "optimizer", this.begin, final + 1, of("optimizer", rank)
            for step in range(this.schedule.num_steps):
                own = [span for span in this.lists[rank] if span[1].stage == stage and span[1].step == step]
                adding = [span[2] for span in own if span[0] in "BW"]
                updates = [span[3] for span in own if span[0] == "STEP"]
                if adding:
                    yield rank, "gradient", min(adding), max(updates, default=final), of("gradients", rank)
        for name, op, start, _, _ in this.lists[rank]:
            half = this.at.get(op._replace(kind=OpKind.I))
            last = this.at.get(op._replace(kind=OpKind.B)) or this.at.get(op._replace(kind=OpKind.W))
            if name == ("R" if recomputed else "F"):
                until = half[3] if half else last[3]
                yield rank, "activation", start, until, of("activation", rank)
                yield rank, "activation", until, last[3], of("after_input", rank)
            if name == "F" and recomputed:
                yield rank, "input", start, (half or last)[3], of("boundary", rank)
            producer = this.input_of(op) if name in WORK else None
            taken = name in "BI" and recomputed and not this.schedule.early_recompute  # R before it took the message
            if producer is not None and not taken and rank_of[producer[4]] != rank:
                sender, arrival = rank_of[producer[4]], this.timeline.arrivals[producer[4]]
                yield sender, "send", producer[3], arrival, of("boundary", sender)
                yield rank, "recv", arrival, start, of("boundary", sender)


@pytest.mark.parametrize("seed", SEEDS)
def test_bytes_are_the_sum_of_what_is_alive(seed):
    """Every part on its own: weights and optimizer always, activations M_B and then M_W, inputs, gradients, buffers."""
    this = case(seed)
    random = Random(seed)
    sizes = Sizes(**{name: values(some_number(random)) for name in Sizes._fields})
    found = list(pieces(this, sizes))
    times = sorted({*this.timeline.starts, *this.timeline.ends, *this.timeline.arrivals})

    def held(rank, tick):
        parts = Counter()
        for owner, part, start, end, amount in found:
            if owner == rank and start <= tick < end:
                parts[part] += amount
        return parts

    peaks = bytes_held(this.timeline, this.report.lifetimes, sizes).ranks
    for rank in this.ranks:
        totals = [sum(held(rank, tick).values()) for tick in times]
        assert peaks[rank].held == max(totals)
        assert peaks[rank].at == times[totals.index(max(totals))]
        assert {part: amount for part, amount in peaks[rank].parts.items() if amount} == dict(
            held(rank, peaks[rank].at)
        )


@pytest.mark.parametrize("seed", SEEDS)
def test_phases_count_the_ops_before_the_first_backward_and_after_the_last_forward(seed):
    """Of the first step; a recomputation belongs to its backward."""
    this = case(seed)
    for rank, found in enumerate(this.report.phases.ranks):
        kinds = [name for name, op, *_ in this.lists[rank] if name in WORK and op.step == 0]
        text = "".join("F" if kind == "F" else "W" if kind == "W" else "b" for kind in kinds)
        warmup = text.index("b") if "b" in text else len(text)
        cooldown = len(text) - 1 - text.rindex("F") if "F" in text else len(text)
        assert (found.warmup, found.cooldown) == (warmup, cooldown)
        assert found.steady == max(len(text) - warmup - cooldown, 0)


@pytest.mark.parametrize("name", ["pipedream", "pipedream-2bw"])
@pytest.mark.parametrize(("num_ranks", "num_microbatches"), [(1, 2), (2, 3), (3, 3), (3, 7), (4, 5)])
def test_the_versions_that_are_told_are_those_that_a_run_of_the_proof_uses(name, num_ranks, num_microbatches):
    schedule = build(name, Params(num_ranks, num_microbatches, num_steps=2))
    timeline = simulate_schedule(schedule, Costs(values(1), values(2), values(1), (Fraction(1, 2),)))
    from pptrace.proof.problem import Problem

    problem = Problem(schedule.num_stages, num_microbatches, arithmetic_name="float64")
    used = prove(timeline, problem=problem).machine.versions
    told = {(use.stage, (use.step, use.microbatch)): use.version for use in Report(timeline).versions.uses}
    assert told == used
