"""The mutants of the mutation test of `check` (ops, sends and receives dropped, doubled, swapped, renumbered, moved, cut): what
is computed wrongly is caught here too, by its numbers and its states. The judge is the same brute force; neither it nor the
proof asks `check`."""

import ast
from functools import cache
from pathlib import Path

import brute_force
import mutants
import pytest
from brute_force import is_right
from mutants import CASES, MUTANTS_PER_CASE, holders_of, listing, schedule_of

from pptrace.errors import ScheduleError
from pptrace.formats.listings import schedule_of as schedule_in
from pptrace.proof.problem import Problem
from pptrace.proof.prove import prove
from pptrace.proof.reference import unsplit
from pptrace.proof.written import as_written


@cache
def shared(num_stages, num_microbatches):
    problem = Problem(num_stages, num_microbatches)
    return problem, unsplit(problem, [[(0, m) for m in range(num_microbatches)]])


def proof_of(written_down, num_stages, num_microbatches):
    """As `pptrace prove FILE -M ...` does it: timed where a schedule can be made of it, else as it stands."""
    problem, reference = shared(num_stages, num_microbatches)
    refused = ""
    try:
        made = schedule_in(written_down, incomplete=True).schedule
    except ScheduleError as error:
        refused = str(error)
    written = as_written(written_down, num_microbatches, refused=refused)
    assert (written.schedule.num_stages, written.schedule.num_microbatches) == (num_stages, num_microbatches)
    whole = not refused and made.num_microbatches == num_microbatches and not written.needs_its_order
    return prove(made if whole else written, problem=problem, reference=reference)


def judged(name, params, with_messages):
    """(what was done, whether the judge calls it right, the proof) of every mutant of one case."""
    schedule = schedule_of(name, params)
    num_stages, num = schedule.num_stages, schedule.num_microbatches
    for what, rows in mutants.mutants(name, params, with_messages):
        yield what, is_right(rows, num_stages, num, holders_of(schedule)), proof_of(listing(rows), num_stages, num)


@pytest.mark.parametrize(
    ("name", "params", "with_messages"), CASES, ids=lambda value: str(value) if isinstance(value, str) else None
)
def test_what_is_computed_wrongly_is_caught_and_nothing_else(name, params, with_messages):
    wrong = 0
    for what, right, proof in judged(name, params, with_messages):
        assert proof.proved == right, (
            f"{what}: right is {right}, {proof.sentence()}, {[str(f) for f in proof.faults[:3]]}"
        )
        if not right:  # by what was computed or what was held, not only because the engine or the reader refuses
            assert proof.faults or not proof.comparison.equal, f"{what}: {proof.refused}"
            wrong += 1
    assert wrong > MUTANTS_PER_CASE // 4


def test_there_are_at_least_2000_mutants():
    assert len(CASES) * MUTANTS_PER_CASE >= 2000


@pytest.mark.parametrize("module", [brute_force, mutants])
def test_the_judge_and_the_mutants_ask_no_checker(module):
    imported = set()
    for node in ast.walk(ast.parse(Path(module.__file__).read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            imported.add(node.module)
        elif isinstance(node, ast.Import):
            imported |= {alias.name for alias in node.names}
    assert imported
    assert not any(name.startswith("pptrace.check") for name in imported)
