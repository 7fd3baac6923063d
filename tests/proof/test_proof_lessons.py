"""The lessons: what comes out equal, what differs, and by how much, as the text says it."""

from fractions import Fraction

import pytest

from pptrace.errors import ParameterError
from pptrace.proof import layers
from pptrace.proof.choices import Choice, problem_for, unequal_samples
from pptrace.proof.lesson import number_text
from pptrace.proof.lessons import lessons
from pptrace.proof.prove import prove
from pptrace.schedules.registry import Params, build
from pptrace.schedules.transforms import recompute


def proof_of(schedule, **choice):
    chosen = Choice(**choice)

    def proof_on(problem):
        return prove(schedule, problem=problem)

    proof = proof_on(problem_for(schedule.num_stages, schedule.num_microbatches, chosen))
    return proof, lessons(proof, chosen, proof_on)


def bits_of(proof, stage=0):
    """The gradient of one stage as the numbers that it is made of."""
    return next(gradient.total for (copy, _), gradient in proof.machine.updates.reduced.items() if copy[1] == stage)


def test_without_a_lesson_there_is_nothing_to_say():
    assert proof_of(build("1f1b", Params(2, 4)))[1] == []


@pytest.mark.parametrize("arithmetic", ["float32", "float64"])
def test_rounding_leaves_every_schedule_equal_up_to_ulps(arithmetic):
    proof, [lesson] = proof_of(build("zb-h1", Params(4, 7)), arithmetic=arithmetic)
    assert proof.proved
    assert proof.sentence().endswith("equal the unsplit step up to rounding")
    assert lesson.expects == "equal"
    assert [row.label for row in lesson.rows] == ["this schedule", "gpipe fifo", "gpipe lifo", "1f1b"]


def test_gpipe_lifo_and_fifo_round_to_different_float32_gradients():
    orders = {
        order: proof_of(build("gpipe", Params(4, 8, order=order)), arithmetic="float32") for order in ("fifo", "lifo")
    }
    fifo, lifo = (bits_of(orders[order][0]) for order in ("fifo", "lifo"))
    assert fifo != lifo
    assert orders["fifo"][0].proved
    assert orders["lifo"][0].proved


def test_orders_with_the_same_backward_order_round_alike():
    fifo, _ = proof_of(build("gpipe", Params(4, 8)), arithmetic="float32")
    alternating, _ = proof_of(build("1f1b", Params(4, 8)), arithmetic="float32")
    assert bits_of(fifo) == bits_of(alternating)


def test_a_lost_microbatch_is_no_rounding():
    schedule = build("1f1b", Params(2, 8))
    orders = [list(schedule.codes[:-1][:15]), [schedule.codes[i] for i in schedule.positions(1)]]
    proof, _ = proof_of(schedule.replace(orders), arithmetic="float32")
    assert proof.sentence() == "outputs and losses equal, gradients of stage 0 incomplete: microbatch 7 missing"
    assert next(part.ulps for part in proof.comparison.gradients if part.stage == 0) > 2**16


def test_a_sum_instead_of_a_mean_is_M_times_the_gradient():
    proof, [lesson] = proof_of(build("1f1b", Params(4, 6)), normalization="sum")
    assert not proof.proved
    assert lesson.expects == "differs"
    assert "exactly 6 times" in lesson.text[0]
    assert lesson.explains
    num = proof.problem.arithmetic
    for stage in range(4):
        six_times = layers.times(num, proof.reference.gradients[0][stage], Fraction(6))
        assert layers.same(num, bits_of(proof, stage), six_times)
    assert proof.sentence() == "outputs and losses equal, gradients of stages 0 1 2 3 differ"


def test_statistics_of_a_microbatch_are_not_those_of_the_batch():
    proof, [lesson] = proof_of(build("1f1b", Params(3, 4)), normalization="batch")
    assert not proof.comparison.outputs.equal
    assert not any(part.equal for part in proof.comparison.gradients)
    assert lesson.expects == "differs"
    assert "gives exactly the gradients of this schedule: statistics make all the difference" in lesson.text[1]
    assert "running means (momentum 1/2) differ too" in lesson.text[2]
    assert lesson.explains


def test_one_microbatch_is_the_whole_batch_also_for_its_statistics():
    proof, [lesson] = proof_of(build("1f1b", Params(3, 1)), normalization="batch")
    assert proof.proved
    assert lesson.expects == "equal"
    assert "running means (momentum 1/2) are the same" in lesson.text[2]


def test_unequal_microbatches_need_their_samples_as_weights():
    assert unequal_samples(5) == (2, 1, 2, 1, 2)
    proof, [lesson] = proof_of(build("1f1b", Params(3, 4)), normalization="unequal")
    assert proof.comparison.outputs.equal
    assert not any(part.equal for part in proof.comparison.gradients)
    assert "all 6 samples" in lesson.text[0]
    assert lesson.text[1].endswith(
        "instead: outputs, losses, gradients of all 3 stages and updated weights equal the unsplit step."
    )


@pytest.mark.parametrize("name", ["gpipe", "1f1b", "interleaved", "zb-h1"])
def test_masks_tied_to_samples_give_the_same_gradients_in_every_schedule(name):
    proof, [lesson] = proof_of(build(name, Params(2, 4)), dropout="tied")
    assert proof.proved
    assert lesson.expects == "equal"


def test_recomputation_replays_tied_masks():
    proof, [lesson] = proof_of(recompute(build("1f1b", Params(3, 4))), dropout="tied")
    assert proof.proved
    assert "Recomputation replays" in lesson.text[0]


def test_masks_drawn_in_order_of_execution_hang_on_the_schedule():
    gradients = []
    for name in ("gpipe", "1f1b"):
        proof, [lesson] = proof_of(build(name, Params(3, 6)), dropout="ordered")
        assert not proof.proved
        assert lesson.expects == "differs"
        gradients.append(bits_of(proof))
    assert not layers.same(proof.problem.arithmetic, *gradients)


def test_recomputation_with_masks_drawn_again_is_wrong_even_on_one_stage():
    plain, _ = proof_of(build("1f1b", Params(1, 4)), dropout="ordered")
    again, [lesson] = proof_of(recompute(build("1f1b", Params(1, 4))), dropout="ordered")
    assert plain.proved
    assert not again.proved
    assert "masks that its forward never used" in lesson.text[1]


def test_unknown_words_are_refused():
    with pytest.raises(ParameterError, match="--normalization is mean, sum, batch, unequal, got 'layer'"):
        problem_for(2, 2, Choice(normalization="layer"))
    with pytest.raises(ParameterError, match="--dropout is none, tied, ordered"):
        problem_for(2, 2, Choice(dropout="some"))
    with pytest.raises(ParameterError, match="--arithmetic is exact, float64, float32"):
        problem_for(2, 2, Choice(arithmetic="float16"))


def test_numbers_are_exact_where_they_are_short():
    assert number_text(Fraction(-3, 8)) == "-0.375"
    assert number_text(Fraction(1, 3)) == "1/3"
    assert number_text(Fraction(1, 2**200)) == "~6.22302e-61"


def delayed(problem, owners, version_of, num_updates, size):
    """Weight stashing by its definition: the gradient of every update taken at older weights, applied to the newest."""
    num = problem.arithmetic
    history = [[parameters] for parameters in problem.weights]
    for update in range(num_updates):
        total = None
        for step, microbatch in owners[update * size : (update + 1) * size]:
            x, target = problem.data(step, microbatch)
            seen = [history[s][version_of(s, update)] for s in range(problem.num_stages)]
            kept = []
            for parameters in seen:
                x, saved = layers.forward(num, parameters, x)
                kept.append(saved)
            gradient = layers.loss_gradient(num, x, target)
            parts = []
            for parameters, saved in zip(reversed(seen), reversed(kept), strict=True):
                gradient, part = layers.backward(num, parameters, saved, gradient)
                parts.insert(0, layers.times(num, part, Fraction(1, size)))
            total = parts if total is None else [layers.plus(num, a, b) for a, b in zip(total, parts, strict=True)]
        for stage, gradient in enumerate(total):
            history[stage].append(layers.stepped(num, history[stage][-1], gradient, problem.rate))
    return history


def assert_history(proof, expected):
    for (_, stage), versions in proof.machine.updates.weights.items():
        assert len(versions) == len(expected[stage])
        for found, wanted in zip(versions, expected[stage], strict=True):
            assert layers.same(proof.problem.arithmetic, found, wanted)


def test_pipedream_takes_the_gradient_of_microbatch_k_at_the_weights_of_k_minus_the_stages_behind():
    proof, _ = proof_of(build("pipedream", Params(3, 4)))
    owners = [(0, m) for m in range(4)]
    assert proof.faults == ()
    assert_history(proof, delayed(proof.problem, owners, lambda s, k: max(0, k - (2 - s)), 4, 1))


def test_2bw_takes_every_gradient_at_the_version_before_the_newest():
    proof, _ = proof_of(build("pipedream-2bw", Params(2, 3, num_steps=3)))
    owners = [(step, m) for step in range(3) for m in range(3)]
    assert proof.faults == ()
    assert_history(proof, delayed(proof.problem, owners, lambda _, update: max(update - 1, 0), 3, 3))


def test_weight_stashing_is_not_the_synchronous_update_from_the_second_version_on():
    proof, [lesson] = proof_of(build("pipedream", Params(3, 4)))
    assert not proof.proved
    assert lesson.expects == "differs"
    assert [row.label for row in lesson.rows] == ["updates old", *(f"version {k}" for k in range(1, 5))]
    assert lesson.rows[0].cells == ("2", "1", "0")
    assert lesson.rows[1].cells == ("0", "0", "0")
    assert all(cell != "0" for row in lesson.rows[2:] for cell in row.cells)
    assert lesson.explains
    assert proof.sentence() == "outputs and losses differ, gradients of stages 0 1 2 differ from update 1 on"


def test_on_one_rank_nothing_is_stale():
    assert proof_of(build("pipedream", Params(1, 4)))[0].proved
