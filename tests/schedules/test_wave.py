"""wave: our own rule, stated a second time here, and what it gives."""

from __future__ import annotations

from fractions import Fraction

import pytest
import timed_facts

from pptrace.costs import Costs, values
from pptrace.errors import ParameterError
from pptrace.model import Op, OpKind, Placement
from pptrace.schedules.registry import EqualCosts, Params, build, checked, entry
from pptrace.timeline import simulate_schedule


def by_the_rule(num_ranks: int, num: int, num_chunks: int) -> list[list[Op]]:
    """Tick by tick: each rank takes the lowest microbatch's backward that is ready, else the lowest microbatch's forward; a
    microbatch is let in when fewer than P are in flight."""
    ranks = Placement.zigzag(num_ranks, num_chunks).ranks
    stages = range(len(ranks))
    path = [(stage, OpKind.F) for stage in stages] + [(stage, OpKind.B) for stage in reversed(stages)]
    done: dict[int, int] = {}  # by microbatch in flight: how many of its ops are done
    waiting = list(range(num))
    orders: list[list[Op]] = [[] for _ in range(num_ranks)]
    while waiting or done:
        while waiting and len(done) < num_ranks:
            done[waiting.pop(0)] = 0
        chosen = []
        for rank in range(num_ranks):
            ready = [(path[hop][1] is OpKind.F, m) for m, hop in done.items() if ranks[path[hop][0]] == rank]
            if ready:
                chosen.append(min(ready)[1])
                stage, kind = path[done[chosen[-1]]]
                orders[rank].append(Op(stage, kind, chosen[-1]))
        for m in chosen:
            done[m] += 1
            if done[m] == len(path):
                del done[m]
    return orders


@pytest.mark.parametrize("num_chunks", [2, 4, 6])
@pytest.mark.parametrize("num_ranks", [1, 2, 3, 4, 7])
def test_the_order_follows_the_rule(num_ranks: int, num_chunks: int) -> None:
    for num in (1, 2, 3, 5, 8, 13):
        assert list(build("wave", Params(num_ranks, num, num_chunks))) == by_the_rule(num_ranks, num, num_chunks)


def test_p2_m2_by_hand() -> None:
    orders = [" ".join(map(str, order)) for order in build("wave", Params(2, 2))]
    assert orders == ["0F0 0F1 3F0 3B0 3F1 3B1 0B0 0B1", "1F0 2F0 1F1 2F1 2B0 1B0 2B1 1B1"]


@pytest.mark.parametrize("num", [4, 7, 12])
def test_at_most_p_microbatches_are_in_flight(num: int) -> None:
    timeline = simulate_schedule(build("wave", Params(4, num, 4)))
    on_rank_0 = [span for span in timeline.spans(0) if span.op.stage == 0]
    changes = sorted([(span.start, 1) for span in on_rank_0 if span.op.kind is OpKind.F])
    changes += [(span.end, -1) for span in on_rank_0 if span.op.kind is OpKind.B]
    in_flight = most = 0
    for _, change in sorted(changes):
        in_flight += change
        most = max(most, in_flight)
    assert most == 4


@pytest.mark.parametrize(
    ("num", "num_chunks", "elapsed"),
    [(8, 2, 19), (8, 4, Fraction(35, 2)), (4, 2, 11), (3, 2, 10)],  # (v*max(M,P)+min(M,P)-1)(f+b)/v
)
def test_p4_f1_b1(num: int, num_chunks: int, elapsed: Fraction) -> None:
    facts = timed_facts.facts(simulate_schedule(build("wave", Params(4, num, num_chunks)), Costs(values(1), values(1))))
    assert facts.makespan == elapsed
    found = entry("wave")
    (claim,) = found.claims(checked(found, Params(4, num, num_chunks)), EqualCosts(*map(Fraction, (1, 1, 0, 0))))
    assert claim.values == (elapsed,)
    assert all(condition.holds for condition in claim.conditions)


def test_the_closed_form_is_for_whole_groups_and_equal_halves() -> None:
    found = entry("wave")
    (claim,) = found.claims(checked(found, Params(4, 6)), EqualCosts(*map(Fraction, (1, 2, 0, 1))))
    assert [c.text for c in claim.conditions if not c.holds] == ["f = b", "M <= P, or M mod P = 0", "c = 0"]


def test_chunks_come_in_pairs() -> None:
    assert build("wave", Params(2, 3)).num_stages == 4
    assert build("wave", Params(2, 3)).options == {"waves": 1}
    assert build("wave", Params(2, 3, 6)).options == {"waves": 3}
    with pytest.raises(ParameterError, match="even number of chunks, two for every wave, got -v 3; use -v 4"):
        build("wave", Params(2, 3, 3))
