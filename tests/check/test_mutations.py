"""Right schedules of every family with one thing changed at random: every mutant that an independent executor calls wrong is
found, and no change that it calls harmless is accused."""

from __future__ import annotations

import pytest
from brute_force import is_right
from mutants import CASES, LOWERED_CASES, MUTANTS_PER_CASE, holders_of, listing, mutants, schedule_of

from pptrace.check.checker import CheckOptions, check
from pptrace.schedules.registry import entry, names


def judged(name, params, with_messages):
    """(what was done, whether the judge calls it right, the report) of every mutant of one case."""
    schedule = schedule_of(name, params)
    num = schedule.num_microbatches
    options = CheckOptions(num_microbatches=num)
    for what, rows in mutants(name, params, with_messages):
        right = is_right(rows, schedule.num_stages, num, holders_of(schedule))
        yield what, right, check(listing(rows), options)


@pytest.mark.parametrize(
    ("name", "params", "with_messages"),
    CASES + LOWERED_CASES,
    ids=lambda value: str(value) if isinstance(value, str) else None,
)
def test_wrong_mutants_are_found_and_harmless_ones_are_not_accused(name, params, with_messages):
    for what, right, report in judged(name, params, with_messages):
        told = [finding.sentence for finding in report.findings]
        assert report.failed(strict=True) is not right, f"{what}: right is {right}, told {told}"


def test_there_are_enough_mutants_of_both_sorts():
    assert len(CASES) * MUTANTS_PER_CASE >= 2000
    assert {name for name, _, _ in CASES} == {name for name in names() if not entry(name).asynchronous}
    verdicts = [right for case in CASES[::4] for _, right, _ in judged(*case)]
    assert {name for name, _, _ in LOWERED_CASES} >= {"1f1b", "interleaved", "zb-v", "dualpipev", "wave"}
    assert verdicts.count(True) > len(verdicts) // 20
    assert verdicts.count(False) > len(verdicts) // 2
