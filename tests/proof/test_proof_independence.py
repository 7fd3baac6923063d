"""What the proof rests on: the reference shares only the layer functions with the executor, and nothing asks `check`."""

import ast
import sys
from pathlib import Path

import pptrace.proof
from pptrace.proof.executor import run_timeline
from pptrace.proof.machine import Machine
from pptrace.proof.problem import Problem
from pptrace.proof.reference import unsplit
from pptrace.schedules.registry import Params, build
from pptrace.schedules.transforms import recompute
from pptrace.schedules.updates import with_updates
from pptrace.timeline import simulate_schedule

ROOM = Path(pptrace.proof.__file__).parent


def runtime_imports(name):
    """The modules of pptrace that a file of proof/ imports when it runs (not those for type checking)."""
    found = set()
    for node in ast.parse((ROOM / f"{name}.py").read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("pptrace"):
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def test_the_reference_uses_the_layer_functions_and_nothing_else():
    assert runtime_imports("reference") == {"pptrace.proof.layers"}
    assert not any(
        "reference" in module
        for name in ("machine", "activations", "updates", "executor", "messages")
        for module in runtime_imports(name)
    )


def test_neither_the_checker_nor_the_dependency_rule_is_asked():
    for path in ROOM.glob("*.py"):
        text = path.read_text(encoding="utf-8")
        assert "pptrace.check" not in text
        assert "pptrace.dependencies" not in text


def functions_called(work):
    """(file of proof/, function) of every function of pptrace that runs during `work`."""
    called = set()

    def note(frame, event, _):
        path = Path(frame.f_code.co_filename)
        if event == "call" and path.is_relative_to(ROOM.parent):
            called.add((path.relative_to(ROOM.parent).as_posix(), frame.f_code.co_qualname.partition(".<locals>")[0]))

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(before)
    return called


def test_the_reference_and_the_executor_run_no_code_in_common_but_layers_numbers_and_data():
    """Watched while they run: recomputation, split backward, two updates, batch statistics and dropout."""
    problem = Problem(3, 4, dropout="tied", batch_statistics=True)
    schedule = with_updates(recompute(build("zb-h1", Params(3, 4))), 2)
    timeline = simulate_schedule(schedule)
    updates = [[(step, m) for m in range(4)] for step in range(2)]
    machine = Machine(problem, schedule)
    by_reference = functions_called(lambda: unsplit(problem, updates))
    by_executor = functions_called(lambda: run_timeline(machine, timeline))
    assert ("proof/reference.py", "unsplit") in by_reference
    assert {"proof/machine.py", "proof/activations.py", "proof/updates.py"} <= {file for file, _ in by_executor}
    shared = by_reference & by_executor
    assert {file for file, _ in shared} == {"proof/layers.py", "proof/arithmetic.py", "proof/problem.py"}
    assert {name for file, name in shared if file == "proof/problem.py"} <= {
        "Problem.data",
        "Problem.masks",
        "Masks.__init__",
        "Masks.mask",
    }
