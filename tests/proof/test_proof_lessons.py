"""The lessons: what comes out equal, what differs, and by how much, as the text says it."""

from fractions import Fraction
from itertools import chain
from math import frexp

import pytest

from pptrace.errors import ParameterError
from pptrace.proof import layers
from pptrace.proof.choices import Choice, problem_for, unequal_samples
from pptrace.proof.lesson import explained, number_text
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
    assert "The microbatches hold 2 1 2 1 samples." in lesson.text[0]
    assert "(n/6)" in lesson.text[1]
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


def faulty():
    """1f1b P2 M4 whose rank 0 loses its last backward."""
    schedule = build("1f1b", Params(2, 4))
    return schedule.replace([list(schedule.codes[:7]), [schedule.codes[i] for i in schedule.positions(1)]])


@pytest.mark.parametrize(
    "choice", [{"normalization": "sum"}, {"normalization": "batch"}, {"normalization": "unequal"}], ids=str
)
def test_a_lesson_does_not_excuse_a_faulty_schedule(choice):
    right, [lesson] = proof_of(build("1f1b", Params(2, 4)), **choice)
    assert lesson.explains
    assert explained([lesson])
    wrong, [lesson] = proof_of(faulty(), **choice)
    assert not lesson.explains
    assert not explained([lesson])
    assert not right.proved
    assert not wrong.proved


def test_a_faulty_schedule_is_told_to_have_a_fault_of_its_own():
    _, [lesson] = proof_of(faulty(), normalization="batch")
    assert lesson.text[1].endswith("gives other gradients than this schedule: it has a fault of its own as well.")


def test_dropout_in_order_of_execution_does_not_excuse_a_faulty_schedule_either():
    assert proof_of(build("1f1b", Params(2, 4)), dropout="ordered")[1][0].explains
    assert not proof_of(faulty(), dropout="ordered")[1][0].explains


def test_the_running_means_are_those_of_three_microbatches_and_of_their_batch():
    """Stage 0 sees the data themselves: m0, then (m0+m1)/2, then ((m0+m1)/2+m2)/2; the unsplit step sees all at once."""
    proof, [lesson] = proof_of(build("1f1b", Params(1, 3)), normalization="batch")
    num = proof.problem.arithmetic
    first = [[num.value(proof.problem.data(0, m)[0], row, 0) for row in range(2)] for m in range(3)]
    means = [sum(column) / 2 for column in first]
    moved = ((means[0] + means[1]) / 2 + means[2]) / 2
    assert [row.label for row in lesson.rows] == ["this schedule", "unsplit"]
    assert [row.cells for row in lesson.rows] == [(f"{float(moved):.4g}",), (f"{float(sum(means) / 3):.4g}",)]


def test_two_copies_have_running_means_of_their_own():
    _, [lesson] = proof_of(build("dualpipe", Params(2, 4)), normalization="batch")
    assert [row.label for row in lesson.rows] == ["copy going down", "copy going up", "unsplit"]


def test_recomputed_forwards_do_not_move_the_running_means_again():
    plain, _ = proof_of(build("1f1b", Params(2, 4)), normalization="batch")
    again, [lesson] = proof_of(recompute(build("1f1b", Params(2, 4))), normalization="batch")
    num = plain.problem.arithmetic
    assert plain.machine.means.keys() == again.machine.means.keys()
    assert all(num.equal(mean, again.machine.means[copy]) for copy, mean in plain.machine.means.items())
    assert "do not move them again" in lesson.text[2]


def test_masks_drawn_anew_by_a_recomputation_leave_outputs_right_and_gradients_wrong():
    proof, [lesson] = proof_of(recompute(build("1f1b", Params(3, 4))), dropout="redrawn")
    assert proof.comparison.outputs.equal
    assert proof.comparison.losses.equal
    assert not any(part.equal for part in proof.comparison.gradients)
    assert lesson.expects == "differs"
    assert lesson.explains
    assert "outputs and losses are right, the gradients are those of nothing" in lesson.text[0]


def test_masks_drawn_anew_do_nothing_to_a_schedule_that_recomputes_nothing():
    proof, [lesson] = proof_of(build("1f1b", Params(3, 4)), dropout="redrawn")
    assert proof.proved
    assert lesson.expects == "equal"


def test_the_table_of_tied_masks_sets_replayed_beside_redrawn():
    _, [lesson] = proof_of(build("gpipe", Params(3, 4)), dropout="tied")
    rows = {row.label: row.cells for row in lesson.rows}
    values = [cells[0] for cells in rows.values()]
    assert values.count(rows["unsplit"][0]) == 5
    assert rows["1f1b, recomputed, masks replayed"][1:] == ("0", "0 of 18")
    assert rows["1f1b, recomputed, masks drawn anew"][0] != rows["unsplit"][0]
    assert rows["1f1b, recomputed, masks drawn anew"][2] == "18 of 18"


def test_the_table_of_masks_drawn_in_order_has_other_gradients_for_other_schedules():
    _, [lesson] = proof_of(build("1f1b", Params(3, 4)), dropout="ordered")
    rows = {row.label: row.cells[0] for row in lesson.rows}
    assert rows["this schedule"] == rows["1f1b"]
    assert len({rows["gpipe"], rows["1f1b"], rows["unsplit"], rows["1f1b, recomputed, masks drawn anew"]}) == 4


def test_the_figures_of_rounding_are_the_bits_that_differ():
    """gpipe lifo against fifo, counted here entry by entry, in ulp of the largest entry of each matrix."""
    orders = {o: proof_of(build("gpipe", Params(4, 8, order=o)), arithmetic="float32")[0] for o in ("fifo", "lifo")}
    differing, ulps = 0, Fraction(0)
    for stage in range(4):
        for one, other in zip(bits_of(orders["fifo"], stage), bits_of(orders["lifo"], stage), strict=True):
            entries = list(zip(chain(*one.rows), chain(*other.rows), strict=True))
            _, exponent = frexp(max(abs(a) for a, _ in entries))
            differing += sum(a != b for a, b in entries)
            ulps = max(ulps, max(abs(Fraction(a) - Fraction(b)) for a, b in entries) * 2 ** (24 - exponent))
    _, [lesson] = proof_of(build("gpipe", Params(4, 8)), arithmetic="float32")
    rows = {row.label: row.cells for row in lesson.rows}
    assert differing > 0
    assert rows["gpipe lifo"][2:] == (f"{float(ulps):g}", f"{differing} of 24")
    assert rows["gpipe fifo"][2:] == ("0", "0 of 24")
    assert f"{differing} of 24 entries of their gradients differ, by up to {float(ulps):g} ulp" in lesson.text[1]


def test_rounding_is_shown_without_the_other_lessons():
    """--normalization sum makes gradients M times as large; that is no rounding."""
    _, found = proof_of(build("gpipe", Params(2, 4)), arithmetic="float32", normalization="sum")
    _, [plain] = proof_of(build("gpipe", Params(2, 4)), arithmetic="float32")
    assert [lesson.name for lesson in found] == ["float32", "sum"]
    assert found[0].rows == plain.rows
    assert "(all with normalization mean and without dropout)" in found[0].text[-1]


def test_weights_of_pipedream_2bw_are_one_update_old_on_every_stage():
    _, [lesson] = proof_of(build("pipedream-2bw", Params(3, 4, num_steps=3)))
    assert lesson.rows[0] == ("updates old", ("1", "1", "1"))
    assert "at weights that are up to 1 update old" in lesson.text[0]
    assert "With just those ages, one microbatch after another" in lesson.text[1]
    assert lesson.text[1].endswith("the age of the weights makes all the difference.")


@pytest.mark.parametrize("name", ["gpipe", "chimera", "v-half", "pipedream"])
@pytest.mark.parametrize(
    "choice",
    [{"dropout": "ordered"}, {"normalization": "batch"}, {"normalization": "sum"}, {"normalization": "unequal"}],
    ids=str,
)
def test_one_microbatch_leaves_nothing_to_differ(name, choice):
    proof, found = proof_of(build(name, Params(2, 1)), **choice)
    assert proof.proved
    assert {lesson.expects for lesson in found} == {"equal"}


def test_updates_of_one_microbatch_weight_it_right_whatever_its_size():
    _, [unequal, stale] = proof_of(build("pipedream", Params(2, 3)), normalization="unequal")
    assert unequal.expects == "equal"
    assert "weighting them alike is right" in unequal.text[0]
    assert stale.expects == "differs"
    assert stale.explains
