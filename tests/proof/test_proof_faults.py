"""Faulty schedules get the right diagnosis: what is lost, which op met what, and when."""

import pytest

from pptrace.model import OpKind
from pptrace.proof.faults import (
    EarlyUse,
    LateGradient,
    MissingActivation,
    MissingMessage,
    MissingReduction,
    RepeatedOp,
    SlotReused,
    WrongMicrobatch,
    WrongVersion,
)
from pptrace.proof.prove import prove
from pptrace.schedules.registry import Params, build
from pptrace.schedules.transforms import recompute, split_backward
from pptrace.schedules.updates import with_updates
from pptrace.timeline import Timeline, simulate_schedule


def lists(schedule):
    """The codes of every rank, to be changed."""
    return [[schedule.codes[i] for i in schedule.positions(rank)] for rank in range(schedule.num_ranks)]


def code(schedule, text):
    from pptrace.model import Op

    return schedule.coder.code_of(Op.parse(text))


def faults(proof):
    return [type(fault) for fault in proof.faults]


def test_a_missing_cooldown_leaves_right_outputs_and_incomplete_gradients():
    schedule = build("1f1b", Params(4, 8))
    orders = lists(schedule)
    orders[0] = orders[0][:-3]
    proof = prove(schedule.replace(orders))
    assert not proof.proved
    assert proof.faults == ()
    assert proof.sentence() == "outputs and losses equal, gradients of stage 0 incomplete: microbatches 5 6 7 missing"


def test_a_cooldown_cut_off_on_rank_1_takes_the_gradients_of_rank_0_along():
    schedule = build("1f1b", Params(4, 8))
    orders = lists(schedule)
    orders[1] = orders[1][:-2]
    proof = prove(schedule.replace(orders))
    assert proof.sentence() == "outputs and losses equal, gradients of stages 0 1 incomplete: microbatches 6 7 missing"
    assert faults(proof) == [MissingMessage, MissingMessage]
    assert str(proof.faults[0]).startswith("0B6 (")
    assert "needs the gradient of microbatch 6 from stage 1, which is not there" in str(proof.faults[0])


def test_a_lost_weight_half_is_a_missing_gradient():
    schedule = build("zb-h1", Params(4, 8))
    orders = lists(schedule)
    orders[2].remove(code(schedule, "2W5"))
    proof = prove(schedule.replace(orders))
    assert proof.sentence() == "outputs and losses equal, gradients of stage 2 incomplete: microbatch 5 missing"


def test_a_step_before_the_last_backward():
    schedule = with_updates(build("1f1b", Params(1, 4)))
    orders = lists(schedule)
    orders[0] = [*orders[0][:-3], *orders[0][-2:], orders[0][-3]]
    proof = prove(schedule.replace(orders))
    assert faults(proof) == [WrongVersion, LateGradient]
    assert str(proof.faults[0]) == "0B3 (t=7) sees weight version 1, its forward saw version 0"
    assert proof.sentence() == (
        "outputs and losses equal, gradients of stage 0 incomplete: microbatch 3 came after the update"
    )


def test_a_forward_of_the_next_step_before_the_update_sees_old_weights():
    schedule = with_updates(build("gpipe", Params(1, 2)), 2)
    orders = lists(schedule)
    late = code(schedule, "0F0@1")
    orders[0].remove(late)
    orders[0].insert(orders[0].index(code(schedule, "0STEP")), late)
    proof = prove(schedule.replace(orders))
    assert faults(proof) == [WrongVersion]
    assert "outputs and losses differ" in proof.sentence()


def test_a_step_before_its_reduction():
    schedule = with_updates(build("1f1b", Params(2, 4)))
    orders = lists(schedule)
    orders[1][-2:] = orders[1][:-3:-1]
    proof = prove(schedule.replace(orders))
    assert faults(proof) == [MissingReduction]
    assert proof.comparison.equal
    assert not proof.proved


def test_a_slot_reused_too_early_and_the_backward_that_takes_anothers_activation():
    """1f1b P4: rank 0 holds 4 activations; a ring of 3 slots loses microbatch 0 when microbatch 3 comes at t=3."""
    schedule = build("1f1b", Params(4, 8))
    proof = prove(schedule, slots=3)
    assert str(proof.faults[0]) == (
        "0F3 (t=3) takes slot 0 of stage 0, which still holds the activation of microbatch 0: its backward has not run"
    )
    assert str(proof.faults[1]) == (
        "0B0 (t=7) finds the activation of microbatch 3 where that of microbatch 0 should be, and takes it"
    )
    assert {type(fault) for fault in proof.faults} == {SlotReused, WrongMicrobatch, MissingActivation}
    assert [part.equal for part in proof.comparison.gradients] == [False, True, True, True]
    assert prove(schedule, slots=4).proved


def test_an_activation_of_another_microbatch_makes_another_gradient():
    """gpipe with one slot and one more forward than the ring holds: B1 is right, B0 went through microbatch 1."""
    schedule = build("gpipe", Params(1, 2, order="lifo"))
    orders = [[code(schedule, text) for text in ("0F0", "0F1", "0B0")]]
    proof = prove(schedule.replace(orders), slots=1)
    assert faults(proof) == [SlotReused, WrongMicrobatch]


def test_forwards_numbered_from_1_name_the_activation_that_is_not_there():
    """PyTorch 2.13's Schedule1F1B numbers the forwards of its last rank 1..M; M of them cannot be written here, so two are."""
    schedule = build("1f1b", Params(1, 3))
    orders = [[code(schedule, text) for text in ("0F1", "0B0", "0F2", "0B1")]]
    proof = prove(schedule.replace(orders))
    assert str(proof.faults[0]) == (
        "0B0 (op 1 of rank 0) needs the activation saved by its forward, which is not there; "
        "stage 0 holds that of microbatch 1"
    )
    assert proof.refused


def test_an_activation_that_was_consumed_names_its_consumer():
    schedule = build("1f1b", Params(1, 2))
    orders = [[code(schedule, text) for text in ("0F0", "0B0", "0B0", "0F1", "0B1")]]
    proof = prove(schedule.replace(orders))
    assert faults(proof) == [RepeatedOp, MissingActivation]
    assert str(proof.faults[1]).endswith("which 0B0 has consumed")


def test_a_forward_that_runs_twice():
    schedule = build("1f1b", Params(2, 2))
    orders = lists(schedule)
    orders[0].insert(1, orders[0][0])
    assert faults(prove(schedule.replace(orders))) == [RepeatedOp]


def test_untagged_messages_in_another_order_are_taken_for_each_other():
    """Gradients come 1, 0 from stage 1, and stage 0 takes them as 0, 1."""
    schedule = build("gpipe", Params(2, 2))
    orders = lists(schedule)
    orders[1] = [code(schedule, text) for text in ("1F0", "1F1", "1B1", "1B0")]
    proof = prove(schedule.replace(orders), tagged=False)
    assert [str(fault) for fault in proof.faults] == [
        "0B0 (t=5) takes the gradient of microbatch 1 from stage 1",
        "0B1 (t=6) takes the gradient of microbatch 0 from stage 1",
    ]
    assert (
        proof.sentence()
        == "outputs and losses equal, gradients of stage 0 wrong: microbatches 0 1 taken from another microbatch's state"
    )
    assert prove(schedule.replace(orders)).proved


def test_a_backward_without_its_recomputation():
    schedule = recompute(build("1f1b", Params(2, 2)))
    orders = lists(schedule)
    kept = code(schedule, "0R1")
    orders[0].remove(kept)
    orders[0].append(kept)
    proof = prove(schedule.replace(orders))
    assert str(proof.faults[0]).endswith("but only the input was kept: its R has not run")
    assert not proof.proved


def test_a_weight_half_before_its_input_half():
    schedule = split_backward(build("1f1b", Params(1, 1)))
    orders = [[code(schedule, text) for text in ("0F0", "0W0", "0I0")]]
    proof = prove(schedule.replace(orders))
    assert faults(proof) == [MissingActivation]
    assert proof.sentence() == "outputs and losses equal, gradients of stage 0 incomplete: microbatch 0 missing"


def test_a_deadlock_is_run_as_far_as_it_goes_and_never_proved():
    schedule = build("1f1b", Params(2, 2))
    orders = lists(schedule)
    orders[0] = [code(schedule, text) for text in ("0F0", "0B0", "0B1", "0F1")]
    proof = prove(schedule.replace(orders))
    assert proof.refused.startswith("deadlock: ")
    assert not proof.proved


def test_a_deadlock_of_a_registered_schedule_has_its_remedy():
    proof = prove(build("interleaved", Params(4, 5, 3, 4)))
    assert proof.refused.endswith("; leave --group out (groups of 5 never deadlock)")


def test_a_timeline_whose_op_starts_before_its_message_is_an_early_use():
    schedule = with_updates(build("1f1b", Params(2, 1)))
    right = simulate_schedule(schedule)
    starts = right.starts[:]
    position = schedule.codes.index(code(schedule, "1F0"))
    starts[position] = 0
    wrong = Timeline(
        schedule, right.costs, right.dependencies, starts, right.ends, right.arrivals, right.ticks_per_unit
    )
    assert faults(prove(wrong)) == [EarlyUse]


def test_strict_runs_raise_the_first_fault_with_op_and_time():
    with pytest.raises(SlotReused, match=r"0F3 \(t=3\)") as caught:
        prove(build("1f1b", Params(4, 8)), slots=3, strict=True)
    assert (caught.value.op.stage, caught.value.op.kind, caught.value.op.microbatch) == (0, OpKind.F, 3)
    assert caught.value.code == "slot-reused"


def test_measured_timelines_are_run_rank_by_rank():
    """A profiled range holds the wait for its input, so a forward may begin before the one it waits for, and end before it
    does, where that one's range holds the launch of its message."""
    schedule = with_updates(build("1f1b", Params(2, 2)))
    right = simulate_schedule(schedule)
    starts = right.starts[:]
    starts[schedule.codes.index(code(schedule, "1F0"))] = 0
    ends = right.ends[:]
    ends[schedule.codes.index(code(schedule, "0F0"))] += 2
    measured = Timeline(
        schedule,
        right.costs,
        right.dependencies,
        starts,
        ends,
        right.arrivals,
        right.ticks_per_unit,
        measured=True,
    )
    assert prove(measured).proved


def test_where_a_stage_has_two_copies_an_update_waits_for_both_also_without_times():
    """dualpipe P2 M4 with 0F0 doubled: the engine refuses it, and run rank by rank no gradient comes after its update."""
    schedule = with_updates(build("dualpipe", Params(2, 4)))
    orders = lists(schedule)
    orders[0].insert(1, orders[0][0])
    proof = prove(schedule.replace(orders, pairs=()))
    assert proof.refused
    assert faults(proof) == [RepeatedOp]
    assert proof.comparison.equal
