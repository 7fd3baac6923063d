"""README as it is: its commands print what it says, its install and test commands are those of .ci/run."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
CI = (ROOT / ".ci" / "run").read_text(encoding="utf-8")


class Shown(NamedTuple):
    """A command of a fenced `console` block and the lines under it; `...` stands for any lines, none included."""

    command: str
    output: tuple[str, ...]


def shown_commands(text: str) -> list[Shown]:
    found = []
    for block in re.findall(r"^```console\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, *output = part.replace("\\\n", "").rstrip("\n").split("\n")
            found.append(Shown(command, tuple(line.rstrip() for line in output)))
    return found


def agrees(wanted: tuple[str, ...], printed: list[str]) -> bool:
    """Whether the lines are the wanted ones, an elided `...` standing for any number of lines."""
    pattern = "".join("(?:.*\n)*?" if line == "..." else re.escape(line) + "\n" for line in wanted)
    return re.fullmatch(pattern, "".join(line.rstrip() + "\n" for line in printed)) is not None


COMMANDS = shown_commands(README)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the commands run, one after another as a reader would: only the samples are there."""
    path = tmp_path_factory.mktemp("reader")
    (path / "samples").symlink_to(ROOT / "samples")
    return path


@pytest.mark.parametrize("shown", COMMANDS, ids=lambda shown: shown.command)
def test_command_prints_what_readme_says(shown: Shown, folder: Path) -> None:
    assert shown.command.startswith("pptrace ")
    kept = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "FORCE_COLOR", "COLUMNS")}
    paths = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    done = subprocess.run(
        ["bash", "-c", shown.command],
        cwd=folder,
        env={**kept, "PATH": paths},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        timeout=60,
        check=False,
    )
    wanted = "".join(line + "\n" for line in shown.output)
    if shown.output:
        assert agrees(shown.output, done.stdout.splitlines()), f"README says\n{wanted}\nbut it prints\n{done.stdout}"
    assert done.returncode in (0, 1), done.stdout


def test_the_first_screen_shows_a_command() -> None:
    assert COMMANDS[0].command == "pptrace show 1f1b -P 4 -M 4"
    assert README.index("```console") < 1500


@pytest.mark.parametrize("name", ["run", "test"])
def test_ci_runs_what_readme_says(name: str) -> None:
    assert README.count(f"<!-- {name} -->\n```sh\n") == 1
    assert CI.count(f"    run_readme {name}\n") == 1


def test_elided_lines_stand_for_any_lines() -> None:
    assert agrees(("a", "...", "b"), ["a", "b"])
    assert agrees(("a", "...", "b"), ["a", "x", "", "b  "])
    assert not agrees(("a", "..."), ["b", "a"])
    assert not agrees(("a",), ["a", "b"])
    assert not agrees(("a.c",), ["abc"])


def test_commands_are_found_in_console_blocks_only() -> None:
    text = "```sh\n$ no\n```\n```console\n$ pptrace a \\\n  b\nout\n$ pptrace c\n```\n"
    assert shown_commands(text) == [Shown("pptrace a   b", ("out",)), Shown("pptrace c", ())]


def test_the_python_of_readme_runs_and_gives_what_its_comments_say() -> None:
    (code,) = re.findall(r"^```python\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
    names: dict[str, object] = {}
    told = []
    for line in code.splitlines():
        statement, _, comment = line.partition("#")
        value = re.match(r"\s*(\w+\(.*?\))", comment)
        if value:
            told.append((repr(eval(statement, names)), value[1]))
        else:
            exec(statement, names)
    assert told == [("Ratio(numerator=27, denominator=1)", told[0][1])]
    assert told[0][0] == told[0][1]
