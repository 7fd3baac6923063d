"""What the proof rests on: the reference shares only the layer functions with the executor, and nothing asks `check`."""

import ast
from pathlib import Path

import pptrace.proof

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
        "reference" in module for name in ("machine", "executor", "messages") for module in runtime_imports(name)
    )


def test_neither_the_checker_nor_the_dependency_rule_is_asked():
    for path in ROOM.glob("*.py"):
        text = path.read_text(encoding="utf-8")
        assert "pptrace.check" not in text
        assert "pptrace.dependencies" not in text
