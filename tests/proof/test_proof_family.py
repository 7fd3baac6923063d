"""Every registered schedule with a flush computes the unsplit step, exactly, whatever the sizes and costs."""

from fractions import Fraction
from functools import cache
from random import Random

import pytest

from pptrace.costs import Costs, values
from pptrace.errors import LimitError, ParameterError
from pptrace.model import OpKind
from pptrace.proof.problem import MAX_BITS, Problem, estimated_bits
from pptrace.proof.prove import prove
from pptrace.proof.reference import unsplit
from pptrace.schedules import registry
from pptrace.schedules.registry import Params, build
from pptrace.schedules.transforms import recompute, split_backward
from pptrace.schedules.updates import with_updates

SYNCHRONOUS = [name for name in registry.names() if not registry.entry(name).asynchronous]
SIZES = [(p, m, v) for p in range(1, 7) for m in range(1, 10) for v in range(1, 4)]


@cache
def shared(num_stages, num_microbatches):
    """One problem and its unsplit step for all schedules of these sizes."""
    problem = Problem(num_stages, num_microbatches)
    return problem, unsplit(problem, [[(0, m) for m in range(num_microbatches)]])


def legal(name, sizes):
    """The schedules of `name` at those of `sizes` that it allows."""
    found = []
    for p, m, v in sizes:
        try:
            found.append(build(name, Params(p, m, v)))
        except ParameterError:
            continue
    return found


def random_costs(source):
    f, w = Fraction(source.randint(1, 6), source.randint(1, 3)), Fraction(source.randint(0, 6), source.randint(1, 3))
    i, c = Fraction(source.randint(1, 6), source.randint(1, 3)), Fraction(source.randint(0, 4), 2)
    overlap = source.choice(["sum", "max", "split"])
    link = source.choice(["latency", "serial"])
    return Costs(values(f), values(i + w), values(w), (c,), overlap=overlap, link=link)


@pytest.mark.parametrize("name", SYNCHRONOUS)
def test_gradients_outputs_losses_and_weights_equal_the_unsplit_step(name):
    schedules = legal(name, SIZES)
    assert schedules
    source = Random(f"costs {name}")
    for schedule in schedules:
        problem, reference = shared(schedule.num_stages, schedule.num_microbatches)
        proof = prove(schedule, random_costs(source), problem=problem, reference=reference)
        assert proof.proved, (schedule, proof.sentence(), proof.faults[:1], proof.refused)
        counts = {count.kind: count.ran for count in proof.comparison.counts}
        whole = schedule.num_stages * schedule.num_microbatches
        assert counts[OpKind.F] == whole
        assert counts.get(OpKind.B, 0) + counts.get(OpKind.I, 0) == whole
        assert counts.get(OpKind.I, 0) == counts.get(OpKind.W, 0)


@pytest.mark.parametrize("name", SYNCHRONOUS)
def test_splitting_and_recomputing_change_no_gradient(name):
    for schedule in legal(name, [(1, 2, 1), (2, 4, 2), (3, 2, 1), (4, 8, 1), (4, 8, 2)]):
        problem, reference = shared(schedule.num_stages, schedule.num_microbatches)
        for variant in (
            recompute(schedule),
            recompute(schedule, early=True),
            split_backward(schedule),
            recompute(split_backward(schedule)),
        ):
            proof = prove(variant, problem=problem, reference=reference)
            assert proof.proved, (variant, proof.sentence(), proof.faults[:1])


@pytest.mark.parametrize("name", SYNCHRONOUS)
def test_three_updates_in_a_row_equal_three_unsplit_updates(name):
    for schedule in legal(name, [(1, 3, 1), (2, 4, 1), (2, 4, 2), (4, 8, 1)])[:3]:
        proof = prove(with_updates(schedule, 3, joint=False), random_costs(Random(name)))
        assert proof.proved, (schedule, proof.sentence(), proof.faults[:1])
        assert {part.update for part in proof.comparison.weights} == {0, 1, 2}


@pytest.mark.parametrize("seed", range(5))
def test_the_verdict_does_not_hang_on_the_seed(seed):
    schedule = build("1f1b", Params(3, 5))
    assert prove(schedule, problem=Problem(3, 5, seed=seed)).proved


def test_the_ops_of_zb_h1_P4_M8_are_counted_by_kind():
    counts = {count.kind: (count.ran, count.wanted) for count in prove(build("zb-h1", Params(4, 8))).comparison.counts}
    assert counts == {
        OpKind.F: (32, 32),
        OpKind.I: (32, 32),
        OpKind.W: (32, 32),
        OpKind.REDUCE: (4, None),
        OpKind.STEP: (4, None),
    }


def test_a_schedule_without_updates_of_its_own_is_stepped_at_its_end():
    from pptrace.timeline import simulate_schedule

    proof = prove(simulate_schedule(build("1f1b", Params(2, 3))))
    assert proof.proved
    assert len(proof.comparison.weights) == 2


def test_exact_numbers_that_would_pass_100000_bits_are_refused_with_the_advice_float64():
    assert estimated_bits(4, 4, 4) < MAX_BITS < estimated_bits(4, 4, 6)
    with pytest.raises(LimitError, match="--arithmetic float64"):
        prove(build("1f1b", Params(4, 4)), steps=6)
    assert prove(build("1f1b", Params(4, 4)), steps=6, problem=Problem(4, 4, arithmetic_name="float64")).proved


def test_the_estimate_is_not_below_the_longest_number():
    proof = prove(build("1f1b", Params(3, 3)), steps=3)
    longest = 0
    for gradients in proof.reference.gradients:
        for parameters in gradients:
            for matrix in parameters:
                longest = max(longest, *(abs(x).bit_length() for row in matrix.rows for x in row))
    assert longest <= estimated_bits(3, 3, 3) <= 4 * longest


def test_steps_asked_of_a_schedule_that_holds_its_own_are_refused():
    with pytest.raises(ParameterError, match="holds 2 optimizer steps already"):
        prove(with_updates(build("1f1b", Params(2, 2)), 2), steps=3)


@pytest.mark.parametrize("name", SYNCHRONOUS)
def test_weight_halves_and_updates_that_take_no_time_keep_their_order(name):
    """w = 0: on every rank W, REDUCE and STEP may all stand at one instant; two copies reduce after both."""
    costs = Costs(values(1), values(1), values(0))
    for schedule in legal(name, [(2, 4, 1), (2, 4, 2), (4, 8, 1)]):
        for variant in (schedule, split_backward(schedule)):
            proof = prove(variant, costs, steps=2, problem=Problem(schedule.num_stages, schedule.num_microbatches))
            assert proof.proved, (variant, proof.sentence(), proof.faults[:1])
