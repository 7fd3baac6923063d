"""PyTorch 2.13's own orders (compute files), equal to ours op by op."""

from __future__ import annotations

import re

import golden_data
import pytest
from framework_orders import cells, torch_csv

from pptrace.model import Op
from pptrace.schedules.registry import Params, build

TARGETS = {
    "1f1b_runtime": ("1f1b", 8),
    "gpipe_runtime": ("gpipe", 11),
    "gpipe": ("gpipe", 11),
    "interleaved_1f1b": ("interleaved", 33),
    "interleaved_zb": ("interleaved-zb", 33),
    "looped_bfs": ("looped-bfs", 33),
    "zbv": ("zb-v", 11),
    "dualpipev": ("dualpipev", 5),
}
"""Family of files, our name, and how many files there are."""


def _paths(family: str) -> list[str]:
    pattern = re.compile(rf"goldens/torch_csv/{family}_P\d+_M\d+_v\d+\.compute\.csv")
    return [path for path in golden_data.names("goldens/torch_csv/") if pattern.fullmatch(path)]


@pytest.mark.parametrize("family", TARGETS)
def test_every_file_of_the_family_is_there(family: str) -> None:
    assert len(_paths(family)) == TARGETS[family][1]


@pytest.mark.parametrize(("family", "path"), [(family, path) for family in TARGETS for path in _paths(family)])
def test_same_order(family: str, path: str) -> None:
    name = TARGETS[family][0]
    sizes = re.search(r"_P(\d+)_M(\d+)_v(\d+)", path)
    assert sizes is not None
    num_ranks, num_microbatches, num_chunks = map(int, sizes.groups())
    takes_chunks = name in ("interleaved", "interleaved-zb", "looped-bfs")
    params = Params(num_ranks, num_microbatches, num_chunks if takes_chunks else None)
    assert cells(build(name, params)) == torch_csv(path).cells


@pytest.mark.parametrize("path", _paths("1f1b"))
def test_the_planned_1f1b_is_wrong_on_its_last_rank_and_nowhere_else(path: str) -> None:
    """PyTorch's plan (not what it runs) numbers the last rank's forwards 1..M."""
    written = torch_csv(path)
    num_microbatches = written.num_microbatches - 1
    ours = cells(build("1f1b", Params(written.num_ranks, num_microbatches)))
    assert written.cells[:-1] == ours[:-1]
    assert written.cells[-1] == [tuple(_forwards_from_one(op) for op in cell) for cell in ours[-1]]


def _forwards_from_one(op: Op) -> Op:
    return op._replace(microbatch=op.microbatch + 1) if op.kind.name == "F" else op
