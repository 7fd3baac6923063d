"""Weight versions: which one every op uses, how many are kept, how old they are. Cases of people who do this job."""

from __future__ import annotations

from fractions import Fraction

import pytest

from pptrace.analysis.bytes_held import bytes_held
from pptrace.analysis.lifetimes import lifetimes
from pptrace.analysis.weight_versions import NO_VERSION, weight_versions
from pptrace.costs import Costs, Sizes, values
from pptrace.model import OpKind
from pptrace.schedules.registry import Params, build, entry, names
from pptrace.schedules.transforms import split_backward
from pptrace.schedules.updates import with_updates
from pptrace.timeline import Timeline, simulate_schedule

UNIT = Costs(values(1), values(1))


def streamed(name: str, num_ranks: int, num: int, steps: int = 1, costs: Costs = UNIT) -> Timeline:
    return simulate_schedule(build(name, Params(num_ranks, num, num_steps=steps)), costs)


@pytest.mark.parametrize("num_ranks", [1, 2, 4, 6])
def test_pipedream_stashes_p_minus_r_versions(num_ranks: int) -> None:
    found = weight_versions(streamed("pipedream", num_ranks, 3 * num_ranks))
    assert found.peaks == tuple(num_ranks - rank for rank in range(num_ranks))
    assert found.staleness == tuple(num_ranks - 1 - rank for rank in range(num_ranks))


def test_pipedream_p4_forwards_use_the_newest_version() -> None:
    """Rank 0 runs F0..F3 before its first update, then an update before every F; rank 3 updates before every next F."""
    found = weight_versions(streamed("pipedream", 4, 8))
    used = {rank: [use.version for use in found.uses if use.rank == rank] for rank in range(4)}
    assert used[0] == [0, 0, 0, 0, 1, 2, 3, 4]
    assert used[1] == [0, 0, 0, 1, 2, 3, 4, 5]
    assert used[3] == [0, 1, 2, 3, 4, 5, 6, 7]
    assert [use.staleness for use in found.uses if use.rank == 0] == [0, 1, 2, 3, 3, 3, 3, 3]


@pytest.mark.parametrize(("name", "split"), [("pipedream", False), ("pipedream", True), ("pipedream-2bw", True)])
def test_all_ops_of_a_microbatch_on_a_stage_use_one_version(name: str, split: bool) -> None:
    schedule = build(name, Params(4, 5, num_steps=3))
    timeline = simulate_schedule(split_backward(schedule) if split else schedule, UNIT)
    versions: dict[tuple[int, int, int], set[int]] = {}
    found = weight_versions(timeline)
    for span in timeline:
        if span.op.kind in (OpKind.REDUCE, OpKind.STEP):
            assert found.by_position[span.position] == NO_VERSION
        else:
            owner = (span.op.stage, span.op.microbatch or 0, span.op.step)
            versions.setdefault(owner, set()).add(found.by_position[span.position])
    assert len(versions) == 4 * 15
    assert {len(numbers) for numbers in versions.values()} == {1}


def test_pipedream_p2_m3_versions_over_time() -> None:
    """Stage 0 runs F0 F1 . B0 F2 B1 . B2 with updates at 4, 6 and 8.

    At 4 version 1 joins version 0, which B1 needs until 6, when version 2 comes; version 1 is F2's, until B2 ends at 8.
    """
    stage_0, stage_1 = weight_versions(streamed("pipedream", 2, 3)).stashes
    assert (stage_0.held, stage_0.peak, stage_0.at) == (((0, 1), (4, 2), (8, 1)), 2, 4)
    assert (stage_1.held, stage_1.peak, stage_1.at) == (((0, 1),), 1, 0)


@pytest.mark.parametrize("rank", range(4))
def test_2bw_p4_with_an_update_every_4(rank: int) -> None:
    """Microbatch k = 1..12 uses max(floor((k-1)/4)-1, 0), on every rank."""
    found = weight_versions(streamed("pipedream-2bw", 4, 4, 3))
    assert [use.version for use in found.uses if use.rank == rank] == [0] * 8 + [1] * 4
    assert [use.staleness for use in found.uses if use.rank == rank] == [0] * 4 + [1] * 8


@pytest.mark.parametrize(("num_ranks", "num", "steps"), [(4, 4, 3), (4, 7, 4), (2, 2, 6), (1, 1, 5)])
def test_2bw_keeps_two_versions(num_ranks: int, num: int, steps: int) -> None:
    found = weight_versions(streamed("pipedream-2bw", num_ranks, num, steps))
    assert found.peaks == (2,) * num_ranks
    assert found.staleness == (1,) * num_ranks


def test_2bw_uses_no_version_before_it_is_made() -> None:
    timeline = streamed(
        "pipedream-2bw", 4, 4, 5, Costs(values(1), values(3), comm=(Fraction(1),), step_time=Fraction(2))
    )
    found = weight_versions(timeline)
    for rank in range(4):
        made = [0] + [span.end for span in timeline.spans(rank) if span.op.kind is OpKind.STEP]
        for span in timeline.spans(rank):
            version = found.by_position[span.position]
            assert version == NO_VERSION or made[version] <= span.start


@pytest.mark.parametrize("name", [name for name in names() if not entry(name).asynchronous])
def test_a_flush_keeps_one_version(name: str) -> None:
    schedule = with_updates(build(name, Params(4, 8)), 3)
    costs = Costs(values(1), values(2), values(1), reduce=Fraction(1), step_time=Fraction(1))
    found = weight_versions(simulate_schedule(schedule, costs))
    assert (found.peaks, found.staleness) == ((1,) * 4, (0,) * 4)
    assert all(use.version == use.step for use in found.uses)
    assert {stash.held for stash in found.stashes} == {((0, 1),)}


def test_an_order_without_updates_uses_version_0() -> None:
    found = weight_versions(simulate_schedule(build("1f1b", Params(3, 4))))
    assert set(found.by_position) == {0}
    assert {use.staleness for use in found.uses} == {0}


def weight_bytes(timeline: Timeline, *, activation: int | None = None) -> list[tuple[int, int, dict[str, int]]]:
    """(peak, its tick, its parts that are not 0) per rank, where the weights of a rank are 10 bytes."""
    sizes = Sizes(activation=None if activation is None else values(activation), weights=values(10))
    found = bytes_held(timeline, lifetimes(timeline), sizes)
    return [(rank.held, rank.at, {part: size for part, size in rank.parts.items() if size}) for rank in found.ranks]


def test_stashed_versions_are_memory() -> None:
    """pipedream P2 M3: two versions on rank 0 from 4 to 8. With an activation of 1 byte, of which rank 0 holds 2 in [1, 6)."""
    timeline = streamed("pipedream", 2, 3)
    assert weight_bytes(timeline) == [(20, 4, {"weights": 20}), (10, 0, {"weights": 10})]
    assert weight_bytes(timeline, activation=1) == [
        (22, 4, {"weights": 20, "activation": 2}),
        (11, 1, {"weights": 10, "activation": 1}),
    ]
    assert [held for held, _, _ in weight_bytes(streamed("pipedream", 4, 8))] == [40, 30, 20, 10]
    assert [held for held, _, _ in weight_bytes(streamed("pipedream-2bw", 4, 4, 3))] == [20] * 4


@pytest.mark.parametrize(("name", "copies"), [("1f1b", 1), ("dualpipe", 2), ("chimera", 2), ("dualpipev", 1)])
def test_two_way_schedules_hold_the_weights_twice(name: str, copies: int) -> None:
    timeline = simulate_schedule(with_updates(build(name, Params(4, 8))), UNIT)
    assert [held for held, _, _ in weight_bytes(timeline)] == [10 * copies] * 4
