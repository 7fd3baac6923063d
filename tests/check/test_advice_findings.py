"""Legal but wasteful, with the saving."""

from __future__ import annotations

from fractions import Fraction

from faults import codes, only, report

from pptrace.costs import Costs
from pptrace.formats.listings import listing_of
from pptrace.formats.lowering import lower
from pptrace.model import Coder, OpKind, Placement, Schedule
from pptrace.schedules.one_f_one_b import warmup_then_pairs
from pptrace.schedules.registry import Params, build


def test_groups_of_four_on_ten_microbatches():
    """cases.md: P4 v2 M10: 52 with groups of 4, 46 with groups of 5: by name, and in a file that says nothing of groups."""
    schedule = build("interleaved", Params(4, 10, 2, 4))
    for source in (schedule, listing_of(schedule)):
        finding = only(source)
        assert (finding.code, finding.severity) == ("wasteful-groups", "advice")
        assert finding.sentence == "groups of 4 leave bubbles: groups of 5 save 6"
        assert finding.remedy == "leave --group out"
        assert report(source).failed(strict=True) is False
    assert codes(build("interleaved", Params(4, 10, 2))) == []


def test_a_warmup_one_forward_too_long():
    """cases.md: 1f1b P4 M8, a warm-up of P-r holds 5 4 3 2 for the same 22."""
    coder = Coder(4, 8)
    orders = [warmup_then_pairs(coder.run(OpKind.F, rank), coder.run(OpKind.B, rank), 4 - rank) for rank in range(4)]
    finding = only(Schedule("mine", Placement.loop(4), 8, orders))
    assert finding.code == "long-warmup"
    assert "hold 5 4 3 2 activations for an elapsed time of 22" in finding.sentence
    assert "holds 4 3 2 1 and takes 22" in finding.sentence


def test_receives_posted_late():
    """gpipe P2 M2, f=b=1, c=2. Posted early: F1 arrives at 4, F0 0-1, 1F0 3-4, 1F1 4-5, B 5-6, 6-7, back at 8, 9: elapsed 10.
    Inline: 1RECV_F1 is posted at 4, when 1F0 ends, arrives at 6; 1F1 6-7, B 7-8, 8-9; 0RECV_B0 was posted at 2, 0B0 at
    10-11, 0RECV_B1 posted at 11, arrives at 13: elapsed 14."""
    costs = Costs(comm=(Fraction(2),))
    schedule = build("gpipe", Params(2, 2))
    finding = only(lower(listing_of(schedule), "inline"), costs=costs)
    assert (finding.code, finding.ops) == ("late-receive", ("0RECV_B1", "1RECV_F1"))
    assert finding.sentence.endswith("that costs 4 of 14")
    assert codes(schedule, costs=costs) == []
    assert codes(lower(listing_of(schedule), "inline")) == []


def test_no_advice_when_it_is_not_wanted_or_something_is_wrong():
    schedule = build("interleaved", Params(4, 10, 2, 4))
    assert codes(schedule, advice=False) == []
    found = listing_of(schedule)
    broken = found._replace(rows=(found.rows[0][:-1], *found.rows[1:]))
    assert codes(broken) == ["missing-backward"]
