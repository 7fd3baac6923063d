"""The schedule with other sizes and costs: figures by hand for P=M=4, and what is left out."""

from __future__ import annotations

from fractions import Fraction

import pytest

from pptrace.analysis.arithmetic import Term, all_running, work_sums
from pptrace.analysis.growth import growth, what_ifs
from pptrace.api import simulate
from pptrace.costs import Costs, values
from pptrace.model import Op, OpKind, Placement, Schedule


def fraction(report) -> tuple[int, int]:
    return tuple(report.metrics["bubble_over_elapsed"].value)


def elapsed(report) -> Fraction:
    return Fraction(report.metrics["elapsed"].value.numerator, report.timeline.ticks_per_unit)


@pytest.fixture(scope="module")
def grown():
    return {one.microbatches: one for one in growth(simulate("1f1b", num_ranks=4, num_microbatches=4))}


def test_idle_time_stays_6_while_work_is_2m(grown) -> None:
    assert {m: fraction(one.same_size) for m, one in grown.items()} == {
        1: (6, 8),
        2: (6, 10),
        4: (6, 14),
        8: (6, 22),
        16: (6, 38),
        32: (6, 70),
    }


def test_at_a_fixed_global_batch_the_work_stays_8_and_idle_time_shrinks(grown) -> None:
    """M=8: ops of 1/2, (8+3) x 1 = 11."""
    assert {m: elapsed(one.same_batch) for m, one in grown.items()} == {
        1: 32,
        2: 20,
        4: 14,
        8: 11,
        16: Fraction(19, 2),
        32: Fraction(35, 4),
    }


def test_latency_does_not_shrink_with_the_microbatch() -> None:
    """gpipe, c=1: (M+3)(f+b) + 6. M=4: 20. M=8: 28 with ops of 1, 17 with ops of 1/2."""
    found = {one.microbatches: one for one in growth(simulate("gpipe", num_ranks=4, num_microbatches=4, comm=1))}
    assert elapsed(found[4].same_size) == 20
    assert (elapsed(found[8].same_size), elapsed(found[8].same_batch)) == (28, 17)


def test_groups_by_default_follow_m_and_groups_asked_for_stay() -> None:
    default = {
        one.microbatches: one.same_size
        for one in growth(simulate("interleaved", num_ranks=4, num_microbatches=6, num_chunks=2))
    }
    asked = simulate("interleaved", num_ranks=4, num_microbatches=10, num_chunks=2, group=4)
    assert default[6].schedule.options["group"] == 6
    assert default[12].schedule.options["group"] == 4
    assert {one.same_size.schedule.options["group"] for one in growth(asked)} == {4}


def test_transforms_are_made_again() -> None:
    split = growth(simulate("gpipe", num_ranks=2, num_microbatches=4, split_backward=True, recompute="early"))
    assert split[0].same_size.schedule.kinds() >= {OpKind.I, OpKind.W, OpKind.R}
    assert all(one.same_size.schedule.early_recompute for one in split)


def test_an_order_of_ones_own_does_not_grow() -> None:
    order = [[Op.parse(text) for text in ("0F0", "0F1", "0B1", "0B0")]]
    for name in ("mine", "1f1b"):
        own = simulate(Schedule.from_ops(name, Placement.loop(1), 2, order))
        assert growth(own) == what_ifs(own) == ()


def test_sizes_that_are_refused_are_left_out() -> None:
    """dualpipe needs M >= 2P: of 2, 4, 8, 16, .. only those from 8 on."""
    assert [one.microbatches for one in growth(simulate("dualpipe", num_ranks=4, num_microbatches=8))] == [
        8,
        16,
        32,
        64,
    ]


def test_what_ifs_of_1f1b_by_hand() -> None:
    """c=1/2: 14 + 2c(3+3-1) = 19. Last stage 2: 3 + 4 x 4 + 3 = 22 on all four, work 8+8+8+16 = 40. M=3: 12."""
    found = {one.change: one.report for one in what_ifs(simulate("1f1b", num_ranks=4, num_microbatches=4))}
    assert {change: (elapsed(report), Fraction(*fraction(report))) for change, report in found.items()} == {
        "latency: c = 0.5": (19, Fraction(11, 19)),
        "the last stage takes twice as long": (22, Fraction(48, 88)),
        "fewer microbatches than ranks: M = 3": (12, Fraction(6, 12)),
    }


def test_what_ifs_turn_round_what_is_there_already() -> None:
    costs = Costs(values(1, 2, 3), values(2), values(1), comm=(Fraction(1),))
    found = {
        one.change: one.report for one in what_ifs(simulate("gpipe", num_ranks=3, num_microbatches=2, costs=costs))
    }
    assert list(found) == ["no latency: c = 0", "every stage takes the mean", "more microbatches: M = 6"]
    assert found["every stage takes the mean"].costs.forward.numbers == (2, 2, 2)


def test_w_of_three_quarters_where_the_backward_is_split() -> None:
    found = what_ifs(simulate("zb-h1", num_ranks=2, num_microbatches=4, backward=4, weight_grad=2))
    (share,) = [one.report for one in found if one.change == "W takes three quarters of the backward"]
    assert share.costs.weight_grad.numbers == (3,)


def test_the_sum_of_a_rank() -> None:
    report = simulate("1f1b", num_ranks=4, num_microbatches=4, backward=2)
    (first, *_, last) = work_sums(report.timeline, report.work)
    assert first.terms == (Term(OpKind.F, 4, 1, 4), Term(OpKind.B, 4, 2, 8))
    assert (first.busy, last.rank) == (12, 3)


def test_overlapped_pairs_are_terms_of_their_own() -> None:
    report = simulate("dualpipev", num_ranks=2, num_microbatches=4)
    for found in work_sums(report.timeline, report.work):
        assert None in [term.kind for term in found.terms]
        assert sum(term.total for term in found.terms) == found.busy


def test_all_stages_of_1f1b_run_at_once_at_3_and_at_7() -> None:
    report = simulate("1f1b", num_ranks=4, num_microbatches=4)
    assert all_running(report.timeline, report.work) == ((3, 4), (7, 8))


def test_the_stages_of_naive_never_run_at_once() -> None:
    report = simulate("naive", num_ranks=2, num_microbatches=2)
    assert all_running(report.timeline, report.work) == ()
