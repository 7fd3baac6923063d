"""An order is named by what it is: PyTorch's files, variants, near misses."""

from __future__ import annotations

import golden_data
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pptrace.analysis.recognition import recognize
from pptrace.errors import PptraceError
from pptrace.formats import torch_csv
from pptrace.formats.listings import schedule_of
from pptrace.model import Op, OpKind, Placement, Schedule
from pptrace.schedules.registry import Params, build, names
from pptrace.schedules.transforms import recompute, split_backward
from pptrace.schedules.updates import with_updates

FAMILIES = {
    "1f1b_runtime": "1f1b",
    "gpipe": "gpipe",
    "gpipe_runtime": "gpipe",
    "interleaved_1f1b": "interleaved",
    "interleaved_zb": "interleaved-zb",
    "looped_bfs": "looped-bfs",
    "zbv": "zb-v",
    "dualpipev": "dualpipev",
}
FILES = [
    path for path in golden_data.names("goldens/torch_csv/") if path.endswith(".compute.csv") and "/1f1b_P" not in path
]


def read(path: str) -> Schedule:
    return schedule_of(torch_csv.read(golden_data.data(path))).schedule


def known(schedule: Schedule) -> list[str]:
    return [str(candidate) for candidate in recognize(schedule).equal]


@pytest.mark.parametrize("path", FILES)
def test_the_files_of_pytorch_are_recognized(path: str) -> None:
    family = path.rpartition("/")[2].partition("_P")[0]
    assert FAMILIES[family] in [candidate.name for candidate in recognize(read(path)).equal]


def test_interleaved_with_one_chunk_is_eager_and_not_1f1b() -> None:
    assert known(build("interleaved", Params(4, 8, 1))) == ["eager-1f1b", "interleaved,v=1"]


def test_all_forwards_then_split_backwards_is_not_zb_h1() -> None:
    found = recognize(split_backward(build("gpipe", Params(8, 16))))
    assert [str(candidate) for candidate in found.equal] == ["gpipe,split-backward"]


def test_a_group_is_named() -> None:
    assert known(build("interleaved", Params(4, 10, 2, 4))) == ["interleaved,group=4"]


def test_lifo_is_named() -> None:
    assert known(build("gpipe", Params(2, 3, order="lifo"))) == ["looped-bfs,v=1", "gpipe,order=lifo"][::-1]


def test_recomputation_and_several_steps_are_seen_through() -> None:
    schedule = with_updates(recompute(build("1f1b", Params(3, 4))), 2)
    assert known(schedule)[0] == "1f1b,recompute=full"


def test_a_near_miss_names_the_first_op_that_differs() -> None:
    good = build("1f1b", Params(2, 4))
    orders = [good.order(rank) for rank in range(2)]
    orders[0][3], orders[0][4] = orders[0][4], orders[0][3]  # 0F2 0B1 became 0B1 0F2
    found = recognize(Schedule.from_ops("mine", good.placement, 4, orders))
    assert found.equal == ()
    assert found.sentence() == (
        "the nearest registered order is 1f1b (14 of 16 ops agree); first: rank 0, position 3: 0B1 in this order, 0F2 in 1f1b"
    )
    assert len(found.differences) == 1


def test_pytorchs_faulty_1f1b_is_nearest_to_1f1b() -> None:
    listing = torch_csv.read(golden_data.data("goldens/torch_csv/1f1b_P4_M4_v1.compute.csv"))
    found = recognize(schedule_of(listing, incomplete=True).schedule)
    assert str(found.nearest) == "1f1b"
    assert [difference.rank for difference in found.differences] == [0, 1, 2, 3]


def test_another_placement_is_near_to_nothing() -> None:
    ops = [[Op(1, OpKind.F, 0), Op(1, OpKind.B, 0)], [Op(0, OpKind.F, 0), Op(0, OpKind.B, 0)]]
    found = recognize(Schedule.from_ops("mine", Placement("explicit", (1, 0), 2), 1, ops))
    assert found.nearest is None
    assert found.sentence() == "no registered schedule places its stages and splits its backwards like this"


@given(st.sampled_from(names()), st.integers(1, 5), st.integers(1, 8), st.sampled_from([None, 1, 2, 3]))
def test_every_registered_schedule_is_recognized(name: str, ranks: int, microbatches: int, chunks: int | None) -> None:
    try:
        schedule = build(name, Params(ranks, microbatches, chunks))
    except PptraceError:  # a size that this schedule refuses
        return
    assert name in [candidate.name for candidate in recognize(schedule).equal]
