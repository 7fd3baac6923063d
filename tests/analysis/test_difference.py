"""Where two orders part, and what each costs."""

from __future__ import annotations

from pptrace.analysis.difference import Difference, difference, order_differences, size_differences
from pptrace.analysis.report import Report
from pptrace.costs import Costs, values
from pptrace.model import Schedule
from pptrace.schedules.registry import Params, build
from pptrace.schedules.updates import with_updates
from pptrace.timeline import simulate_schedule

COSTS = Costs(values(1), values(2), values(1))


def compared(first: Schedule, second: Schedule) -> Difference:
    reports = [Report(simulate_schedule(schedule, COSTS)) for schedule in (first, second)]
    return difference(first, second, (reports[0], reports[1]))


def sentences(first: Schedule, second: Schedule) -> list[str]:
    return [found.sentence("A", "B") for found in order_differences(first, second)]


def test_gpipe_and_1f1b_part_where_the_first_backward_comes_early() -> None:
    assert sentences(build("gpipe", Params(2, 3)), build("1f1b", Params(2, 3))) == [
        "rank 0, position 2: 0F2 in A, 0B0 in B",
        "rank 1, position 1: 1F1 in A, 1B0 in B",
    ]


def test_an_order_equals_itself_and_itself_with_updates() -> None:
    schedule = build("dualpipev", Params(2, 6))
    assert order_differences(schedule, schedule) == ()
    assert order_differences(schedule, with_updates(schedule)) == ()


def test_a_pair_is_not_its_two_ops() -> None:
    schedule = build("dualpipev", Params(2, 4))
    apart = schedule.replace([schedule.codes[p.start : p.stop] for p in map(schedule.positions, range(2))], pairs=())
    found = order_differences(schedule, apart)
    assert [(len(parted.first), len(parted.second)) for parted in found] == [(2, 1), (2, 1)]
    assert "+" in found[0].sentence("A", "B")


def test_one_more_microbatch_ends_one_list_first() -> None:
    assert sentences(build("gpipe", Params(1, 1)), build("naive", Params(1, 2))) == [
        "rank 0, position 2: the end in A, 0F1 in B"
    ]
    assert size_differences(build("gpipe", Params(1, 1)), build("naive", Params(2, 2))) == (
        "ranks: 1 against 2",
        "stages: 1 against 2",
        "microbatches: 1 against 2",
    )


def test_another_placement_is_said() -> None:
    loop, zigzag = build("looped-bfs", Params(2, 4, 2)), build("zb-v", Params(2, 4))
    assert size_differences(loop, zigzag) == ("stage 2 lives on rank 0 against rank 1",)


def test_what_the_orders_cost() -> None:
    """gpipe and 1f1b at P=4 M=8, f=1 b=2: both 33 and 9 idle, peaks 8 against 4 3 2 1."""
    found = compared(build("gpipe", Params(4, 8)), build("1f1b", Params(4, 8)))
    values_of = {
        measure.first.key: (
            [v.numerator for v in measure.first.values],
            [v.numerator for v in measure.second.values],
        )
        for measure in found.measures
    }
    assert values_of["elapsed"] == ([33], [33])
    assert values_of["bubble_time"] == ([9] * 4, [9] * 4)
    assert values_of["peak_activations"] == ([8] * 4, [4, 3, 2, 1])
    assert {measure.first.key: measure.change for measure in found.measures}["peak_activations"] == (-4, -5, -6, -7)
    assert not found.equal
    assert compared(build("gpipe", Params(4, 8)), build("gpipe", Params(4, 8))).equal
