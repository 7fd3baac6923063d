"""The rules of the house: imports go one way, heavy libraries stay where they belong, files are small and say what they own."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

import pptrace

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "pptrace"
FILES = sorted(PACKAGE.rglob("*.py"))
TRACKED = [
    ROOT / name
    for name in subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, encoding="utf-8", check=True
    ).stdout.split("\0")
    if name and (ROOT / name).is_file()
]

LAYERS = (
    ("errors",),
    ("rationals", "printable"),
    ("model",),
    ("deadlock",),
    ("listing", "costs", "dependencies"),
    ("durations", "layers", "schedules"),
    ("blocking",),
    ("timeline",),
    ("recipes",),
    ("analysis", "queue_lab"),
    ("check", "proof"),
    ("formats",),
    ("render",),
    ("lesson",),
    ("api",),
    ("cli",),
    ("", "__main__"),
)
"""Rooms from the bottom up. A module imports from its own room's files and from rooms below; "" is `pptrace/__init__.py`."""

UPWARD = {
    ("cli", "pptrace"),  # the version
}

ONLY_IN = {
    "rich": ("render/terminal.py",),
    "msgspec": ("formats/",),
    "click": ("cli/",),
}
"""Where a library may be imported."""

MAX_LINES = 400


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def room_of(module: str) -> str:
    """`pptrace.analysis.idle` is in room `analysis`."""
    return [*module.split("."), ""][1]


def imports_of(path: Path) -> list[tuple[int, str]]:
    """(line, module) of every import in the file, those inside functions and for type checking included."""
    found = []
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Import):
            found += [(node.lineno, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{name_of(path)}:{node.lineno}: a relative import"
            module = node.module or ""
            submodules = [f"{module}.{alias.name}" for alias in node.names]
            found += [(node.lineno, m) for m in submodules if (ROOT / (m.replace(".", "/") + ".py")).exists()] or [
                (node.lineno, module)
            ]
    return found


def room_of_file(path: Path) -> str:
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return "" if parts == ("__init__",) else parts[0]


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_imports_go_one_way(path: Path) -> None:
    levels = {room: level for level, rooms in enumerate(LAYERS) for room in rooms}
    own = room_of_file(path)
    assert own in levels, f"{name_of(path)} is in no layer: add its room to LAYERS"
    wrong = [
        f"{name_of(path)}:{line} imports {module}"
        for line, module in imports_of(path)
        if module.split(".")[0] == "pptrace"
        and room_of(module) != own
        and levels[room_of(module)] >= levels[own]
        and (own, module) not in UPWARD
    ]
    assert wrong == []


@pytest.mark.parametrize("library", ONLY_IN)
def test_a_library_is_imported_only_where_it_belongs(library: str) -> None:
    users = {
        path.relative_to(PACKAGE).as_posix()
        for path in FILES
        for _, m in imports_of(path)
        if m.split(".")[0] == library
    }
    assert users, f"nothing imports {library}"
    assert [user for user in users if not user.startswith(ONLY_IN[library])] == []


def test_nothing_else_is_imported() -> None:
    """Beside the standard library, only what the package depends on."""
    known = {*sys.stdlib_module_names, "pptrace", *ONLY_IN}
    strange = {f"{name_of(path)}: {m}" for path in FILES for _, m in imports_of(path) if m.split(".")[0] not in known}
    assert strange == set()


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_a_module_says_what_it_owns(path: Path) -> None:
    docstring = ast.get_docstring(tree_of(path))
    assert docstring
    assert len(docstring) > 25


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_a_file_can_be_read_in_one_sitting(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) <= MAX_LINES


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_the_library_never_asserts_prints_or_exits(path: Path) -> None:
    wrong = []
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Assert):
            wrong.append(f"line {node.lineno}: assert")
        if isinstance(node, ast.Call) and room_of_file(path) not in ("cli", "__main__"):
            called = ast.unparse(node.func)
            if called in ("print", "exit", "quit", "sys.exit", "os._exit", "open", "input"):
                wrong.append(f"line {node.lineno}: {called}()")
    assert wrong == []


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_nothing_is_left_for_later(path: Path) -> None:
    assert re.findall(r"\b(?:TODO|FIXME|XXX|NotImplementedError)\b", path.read_text(encoding="utf-8")) == []


def test_no_float_in_the_engine_and_the_analysis() -> None:
    exact = [
        path
        for path in FILES
        if room_of_file(path)
        in ("model", "dependencies", "costs", "durations", "layers", "schedules", "blocking", "timeline", "analysis")
    ]
    wrong = [
        f"{name_of(path)}:{node.lineno}"
        for path in exact
        for node in ast.walk(tree_of(path))
        if (
            isinstance(node, ast.Constant)
            and isinstance(node.value, float)
            and "get_close_matches" not in _line(path, node)
        )
        or (isinstance(node, ast.Call) and ast.unparse(node.func) == "float")
        or (isinstance(node, ast.Attribute) and node.attr == "perf_counter")
    ]
    assert wrong == []


def _line(path: Path, node: ast.Constant) -> str:
    return path.read_text(encoding="utf-8").splitlines()[node.lineno - 1]


def test_the_version_is_a_literal_and_the_same_everywhere() -> None:
    assigned = [
        ast.literal_eval(node.value)
        for node in ast.walk(tree_of(PACKAGE / "__init__.py"))
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__version__"
    ]
    stated = re.findall(r'^version = "(.*)"$', (ROOT / "pyproject.toml").read_text(encoding="utf-8"), re.MULTILINE)
    assert assigned == stated
    assert len(assigned) == 1


@pytest.mark.parametrize("name", pptrace.__all__)
def test_a_public_name_is_there_and_says_what_it_is(name: str) -> None:
    found = getattr(pptrace, name)
    assert name == "__version__" or found.__doc__


@pytest.mark.parametrize(
    ("arguments", "absent"),
    [
        (["--version"], ("rich", "msgspec", "pptrace.timeline")),
        (["trace", "1f1b", "-P", "4", "-M", "4"], ("rich", "pptrace.proof", "pptrace.check")),
    ],
    ids=["version", "trace"],
)
def test_what_a_command_does_not_load(arguments: list[str], absent: tuple[str, ...]) -> None:
    """In a pipe: no rich for the version nor for JSON."""
    code = (
        "import sys\n"
        "from pptrace.cli import main\n"
        f"sys.argv = ['pptrace', *{arguments!r}]\n"
        "try:\n    main()\n"
        "except SystemExit as done:\n    status = done.code\n"
        "else:\n    status = 0\n"
        "print(*sorted(sys.modules), file=sys.stderr)\n"
        "sys.exit(status)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, encoding="utf-8", check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout
    loaded = set(done.stderr.split())
    assert "pptrace.cli" in loaded
    assert loaded.isdisjoint(absent)


_MACHINE = re.compile(r"(?<![\w.])/(?:work|tmp|root|home/\w+|Users/\w+)/|/(?:usr|opt)/\w+/python")


def test_no_path_of_a_machine_is_in_a_tracked_file() -> None:
    wrong = []
    for path in TRACKED:
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        wrong += [f"{name_of(path)}:{i}" for i, line in enumerate(text.splitlines(), 1) if _MACHINE.search(line)]
    assert wrong == [f"tests/test_house.py:{number}" for number in _own_pattern_lines()]


def _own_pattern_lines() -> list[int]:
    lines = Path(__file__).read_text(encoding="utf-8").splitlines()
    return [i for i, line in enumerate(lines, 1) if line.startswith("_MACHINE = ") and _MACHINE.search(line)]
