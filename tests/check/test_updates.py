"""Once a step: gradients reduced behind the last backward, weights gathered before they are used and freed after."""

from __future__ import annotations

import pytest
from faults import codes, only, told

SHARDED = """
    0UNSHARD,0F0,0F1,0B0,0B1,0RESHARD,0REDUCE_GRAD
    1UNSHARD,1F0,1B0,1F1,1B1,1RESHARD,1REDUCE_GRAD
"""


def test_weights_gathered_before_the_first_op_and_freed_after_the_last():
    assert codes(SHARDED) == []
    assert codes(SHARDED.replace("0F1,", "0RESHARD,0UNSHARD,0F1,")) == []


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ("0UNSHARD,0F0", "0F0,0UNSHARD", "0F0 runs while the weights of stage 0 are not gathered"),
        ("0B1,0RESHARD", "0RESHARD,0B1", "0B1 runs while the weights of stage 0 are not gathered"),
        ("0UNSHARD", "0UNSHARD,0UNSHARD", "0UNSHARD: the weights of stage 0 are gathered already"),
        ("1RESHARD", "1RESHARD,1RESHARD", "1RESHARD: the weights of stage 1 are not gathered"),
    ],
)
def test_an_op_of_a_stage_whose_weights_are_not_gathered(old, new, sentence):
    finding = only(SHARDED.replace(old, new))
    assert (finding.code, finding.sentence) == ("not-gathered", sentence)


def test_a_list_without_sharding_needs_none():
    assert codes(SHARDED.replace("0UNSHARD,", "").replace(",0RESHARD", "")) == []


def test_gradients_reduced_before_the_last_backward():
    finding = only(SHARDED.replace(",0REDUCE_GRAD", "").replace("0B1", "0REDUCE_GRAD,0B1"))
    assert (finding.code, finding.ops) == ("early-update", ("0REDUCE_GRAD", "0B1"))
    assert finding.sentence == "0REDUCE_GRAD comes before 0B1, whose gradient it then misses"


def test_a_list_that_is_cut_off_lacks_its_update_as_well_and_is_told_once():
    text = SHARDED.replace("0B0,0B1,0RESHARD,0REDUCE_GRAD", "0RESHARD")
    assert [code for code, _ in told(text)] == ["lost-cooldown"]
