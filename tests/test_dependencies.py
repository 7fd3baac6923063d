"""What every op waits for, and the orders that no engine can run."""

from __future__ import annotations

import pytest

from pptrace.deadlock import DeadlockError
from pptrace.dependencies import GATHER, MISSING, NOTHING, dependencies, require_runnable
from pptrace.errors import LimitError, ScheduleError
from pptrace.model import Op, OpKind, Placement, Schedule
from pptrace.schedules.registry import Params, build
from pptrace.schedules.updates import with_updates


def order(*rows: str, placement: Placement | None = None, num: int = 1, **options) -> Schedule:
    """A schedule from rows such as "0F0 0B0"."""
    ops = [[Op.parse(text) for text in row.split()] for row in rows]
    return Schedule.from_ops("s", placement or Placement.loop(len(rows)), num, ops, **options)


def waits(schedule: Schedule) -> dict[str, list[str]]:
    """By op: what it waits for, as text, its rank's order left out."""
    deps = dependencies(schedule)
    return {
        str(schedule.op(position)): sorted(str(schedule.op(p)) for p in deps.after(position))
        for position in range(schedule.num_ops)
    }


def refused(schedule: Schedule) -> str:
    with pytest.raises(ScheduleError) as caught:
        require_runnable(schedule, dependencies(schedule))
    return str(caught.value)


def test_full_backwards() -> None:
    assert waits(build("1f1b", Params(3, 1))) == {
        "0F0": [],
        "1F0": ["0F0"],
        "2F0": ["1F0"],
        "2B0": ["2F0"],
        "1B0": ["1F0", "2B0"],
        "0B0": ["0F0", "1B0"],
    }


def test_split_backwards_and_mixed_ones() -> None:
    schedule = order("0F0 0I0 0W0", "1F0 1B0", "2F0 2I0 2W0")
    found = waits(schedule)
    assert found["0I0"] == ["0F0", "1B0"]
    assert found["1B0"] == ["1F0", "2I0"]
    assert (found["0W0"], found["2I0"]) == (["0I0"], ["2F0"])


def test_two_stages_on_one_rank_wait_for_each_other_all_the_same() -> None:
    found = waits(order("0F0 1F0 1B0 0B0", placement=Placement.loop(1, 2)))
    assert found == {"0F0": [], "1F0": ["0F0"], "1B0": ["1F0"], "0B0": ["0F0", "1B0"]}


def test_recomputation_waits_for_the_gradient() -> None:
    rows = ("0F0 0R0 0B0", "1F0 1R0 1B0")
    late, early = waits(order(*rows)), waits(order(*rows, early_recompute=True))
    assert (late["0R0"], late["0B0"], late["1R0"]) == (["0F0", "1B0"], ["0R0", "1B0"], ["1F0"])
    assert (early["0R0"], early["0B0"]) == (["0F0"], ["0R0", "1B0"])


def test_each_direction_waits_along_its_own_copy() -> None:
    found = waits(order("0F0 1F1 1B1 0B0", "0F1 1F0 1B0 0B1", placement=Placement.two_way(2), num=2))
    assert found["1F1"] == ["0F1"]
    assert found["0B1"] == ["0F1", "1B1"]
    assert found["1F0"] == ["0F0"]


def test_positions_and_marks() -> None:
    deps = dependencies(order("0F0 0B0", "1F0"))
    assert deps.inputs == [NOTHING, MISSING, 0]
    assert deps.states == [NOTHING, 0, NOTHING]
    assert deps.where[0] == 0
    assert not deps.doubled


@pytest.mark.parametrize("joint", [True, False])
def test_an_update_waits_for_every_gradient_of_its_step(joint: bool) -> None:
    schedule = with_updates(build("1f1b", Params(3, 2)), 2, joint=joint)
    found = waits(schedule)
    steps = {"0STEP": ["0REDUCE", "1REDUCE", "2REDUCE"], "2STEP@1": ["0REDUCE@1", "1REDUCE@1", "2REDUCE@1"]}
    for step, gathered in steps.items():
        assert found[step] == (gathered if joint else [step.replace("STEP", "REDUCE")])
    for rank in range(3):  # its own comes before it in the list
        texts = [str(op) for op in schedule.order(rank)]
        assert (
            texts.index(f"{rank}B1")
            < texts.index(f"{rank}REDUCE")
            < texts.index(f"{rank}STEP")
            < texts.index(f"{rank}F0@1")
        )


def test_both_copies_reduce_together() -> None:
    schedule = order("0F0 1F1 1B1 0B0", "0F1 1F0 1B0 0B1", placement=Placement.two_way(2), num=2)
    found = waits(with_updates(schedule))
    assert found["0REDUCE"] == ["0B0", "0B1"]
    assert found["1REDUCE1"] == ["1B0", "1B1"]
    assert found["0STEP"] == ["0REDUCE", "0REDUCE1", "1REDUCE", "1REDUCE1"]


def test_a_gather_is_marked() -> None:
    deps = dependencies(with_updates(build("1f1b", Params(2, 1))))
    assert [position for position, awaited in enumerate(deps.inputs) if awaited == GATHER] == [3, 7]


@pytest.mark.parametrize(
    ("schedule", "message"),
    [
        (
            order("0F0 0B0", "1F0"),
            "rank 0: 0B0 needs the output of 1B0 (or 1I0), which is in no rank's list",
        ),
        (order("0B0", "1F0 1B0"), "rank 1: 1F0 needs the output of 0F0, which is in no rank's list"),
        (order("0B0"), "rank 0: 0B0 needs what is saved by 0F0, which is in no rank's list"),
        (order("0F0 0W0"), "rank 0: 0W0 needs what is saved by 0I0, which is in no rank's list"),
        (order("0F0 0F0 0B0"), "0F0 occurs twice: on rank 0 and on rank 0; every op runs once"),
        (order("0F0", "1F0 0F0"), "0F0 occurs twice: on rank 0 and on rank 1; every op runs once"),
        (
            order("0F0", "1F0 1B0 0B0"),
            "rank 1 runs ops of stage 0, which lives on rank 0; a stage lives on one rank",
        ),
        (
            order("0F0 1F1 1B1 0B0 0F1", "1F0 1B0 0B1", placement=Placement.two_way(2), num=2),
            "rank 0 runs stage 0 of microbatch 1, whose copy of the stage lives on rank 1; "
            "in a two-way placement the first half of the microbatches goes down, the others go up",
        ),
    ],
)
def test_orders_that_cannot_be_run(schedule: Schedule, message: str) -> None:
    assert refused(schedule) == message


def test_the_missing_op_is_named_with_its_step() -> None:
    schedule = order("0F0 0B0 0F0@1 0B0@1", "1F0 1B0 1F0@1", num_steps=2)
    assert refused(schedule).startswith("rank 0: 0B0@1 needs the output of 1B0@1 (or 1I0@1)")


@pytest.mark.parametrize(("row", "op", "awaited"), [("0B0 0F0", "0B0", "0F0"), ("0F0 0W0 0I0", "0W0", "0I0")])
def test_what_is_saved_later_is_a_deadlock_with_itself(row: str, op: str, awaited: str) -> None:
    schedule = order(row)
    with pytest.raises(DeadlockError) as caught:
        require_runnable(schedule, dependencies(schedule))
    assert str(caught.value) == f"deadlock: rank 0: {op} waits for {awaited}, which comes later in the same list"


def test_a_whole_schedule_is_runnable() -> None:
    for name in ("naive", "gpipe", "1f1b", "eager-1f1b"):
        schedule = with_updates(build(name, Params(3, 5)), 2)
        require_runnable(schedule, dependencies(schedule))


def test_absurd_sizes_are_refused_before_tables_are_made() -> None:
    with pytest.raises(
        LimitError, match="is more than the 8,000,000 places that pptrace keeps; are the numbers in the ops right"
    ):
        dependencies(order("0F99999999", num=100_000_000))


def test_an_empty_schedule_waits_for_nothing() -> None:
    deps = dependencies(order("", ""))
    assert (deps.inputs, deps.states, deps.gathers) == ([], [], {})


def test_a_missing_op_is_found_beside_updates_that_gather() -> None:
    whole = with_updates(build("1f1b", Params(2, 1)))
    orders = [[code for code in rank if code != whole.coder.base(OpKind.F, 1)] for rank in split(whole)]
    assert refused(whole.replace(orders)) == ("rank 1: 1B0 needs what is saved by 1F0, which is in no rank's list")
    orders = [[code for code in rank if code != whole.coder.base(OpKind.F, 0)] for rank in split(whole)]
    assert refused(whole.replace(orders)) == "rank 1: 1F0 needs the output of 0F0, which is in no rank's list"


def split(schedule: Schedule) -> list[list[int]]:
    """The codes of every rank."""
    return [[schedule.codes[i] for i in schedule.positions(rank)] for rank in range(schedule.num_ranks)]
