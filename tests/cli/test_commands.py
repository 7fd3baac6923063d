"""What holds for every command: help with an example, completion, and that starting one imports nothing of the others."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import click
import pytest
from running import answer, run

from pptrace import __version__
from pptrace.cli import COMMANDS, main
from pptrace.render.schedule_table import schedule_table
from pptrace.schedules.registry import entry, names


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help_with_an_example(name: str) -> None:
    for flag in ("-h", "--help"):
        text = answer(name, flag)
        assert text.startswith(f"Usage: pptrace {name}")
        assert f"pptrace {name}" in text.partition("\n")[2]
        assert "-h, --help" in text


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_says_what_it_does(name: str) -> None:
    command = main.get_command(click.Context(main), name)
    assert command is not None
    silent = [param.opts for param in command.params if isinstance(param, click.Option) and not param.help]
    assert silent == []


def test_the_list_of_commands_and_the_version() -> None:
    listed = answer("--help")
    assert all(f"  {name} " in listed for name in COMMANDS)
    assert answer("--version") == f"pptrace {__version__}\n"
    assert answer() == listed


def fresh(*args: str, **env: str) -> subprocess.CompletedProcess[str]:
    """The command in a process of its own."""
    return subprocess.run(
        [sys.executable, *args], capture_output=True, text=True, check=False, env={**os.environ, **env}, timeout=60
    )


def imported(*args: str) -> set[str]:
    """The modules that a command line imports."""
    lines = fresh("-X", "importtime", "-m", "pptrace", *args).stderr.splitlines()
    return {line.rpartition("|")[2].strip() for line in lines if line.startswith("import time:")}


def test_version_imports_the_skeleton_only() -> None:
    ours = {name for name in imported("--version") if name.startswith("pptrace")}
    assert ours == {"pptrace", "pptrace.cli", "pptrace.cli.errors", "pptrace.errors", "pptrace.printable"}


def test_json_output_imports_no_rich_and_plain_text_neither_rich_nor_msgspec() -> None:
    assert not {"rich", "pptrace.cli.show", "pptrace.schedules.zero_bubble"} & imported(
        "trace", "1f1b", "-P", "2", "-M", "2"
    )
    assert not {"rich", "msgspec"} & imported("show", "1f1b", "-P", "2", "-M", "2")


def test_python_dash_m_is_the_command() -> None:
    shown = fresh("-m", "pptrace", "show", "1f1b", "-P", "2", "-M", "2")
    assert (shown.returncode, shown.stderr) == (0, "")
    assert shown.stdout == answer("show", "1f1b", "-P", "2", "-M", "2")


@pytest.mark.parametrize(
    ("words", "at", "wanted"),
    [
        ("pptrace sch", "1", ["schedules", "schema"]),
        ("pptrace show zb-h", "2", ["zb-h1", "zb-h2"]),
        ("pptrace show 1f1b --split", "3", ["--split-backward"]),
        ("pptrace show 1f1b --link s", "4", ["serial"]),
        ("pptrace show 1f1b --section me", "4", ["metrics"]),
        ("pptrace schedules zb-h", "2", ["zb-h1", "zb-h2"]),
        ("pptrace convert x.csv --to torch-", "4", ["torch-compute", "torch-comms"]),
        ("pptrace convert x --from j", "4", ["json", "jsonl"]),
    ],
)
def test_a_shell_completes_commands_schedules_and_options(words: str, at: str, wanted: list[str]) -> None:
    done = fresh("-m", "pptrace", _PPTRACE_COMPLETE="bash_complete", COMP_WORDS=words, COMP_CWORD=at)
    assert [line.partition(",")[2] for line in done.stdout.splitlines()] == wanted


@pytest.mark.parametrize("words", ["pptrace show ./x", "pptrace show 1f1b --costs x", "pptrace trace 1f1b -o x"])
def test_a_shell_completes_files(words: str) -> None:
    at = str(len(words.split()) - 1)
    done = fresh("-m", "pptrace", _PPTRACE_COMPLETE="bash_complete", COMP_WORDS=words, COMP_CWORD=at)
    assert done.stdout == f"file,{words.split()[-1]}\n"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_gets_its_completion(shell: str) -> None:
    done = fresh("-m", "pptrace", _PPTRACE_COMPLETE=f"{shell}_source")
    assert (done.returncode, done.stderr) == (0, "")
    assert "_PPTRACE_COMPLETE" in done.stdout


def test_completing_a_schedule_name_imports_no_schedule() -> None:
    done = fresh(
        *("-X", "importtime", "-m", "pptrace"),
        _PPTRACE_COMPLETE="bash_complete",
        COMP_WORDS="pptrace show z",
        COMP_CWORD="2",
    )
    assert "zb-h1" in done.stdout
    assert "pptrace.schedules.registry" in done.stderr
    assert "pptrace.schedules.zero_bubble" not in done.stderr
    assert "pptrace.analysis" not in done.stderr


def test_the_listing_of_schedules_has_all_of_them_with_what_they_need() -> None:
    listed = answer("schedules")
    for name in names():
        assert f"{name}: {entry(name).summary}\n" in listed
        assert entry(name).constraints in listed
        assert entry(name).source in listed
    found = json.loads(answer("schedules", "-t", "json"))
    assert [item["name"] for item in found] == names()
    assert found[names().index("1f1b")]["closed_forms"]["peak"] == "min(M, P-r)"
    assert answer("schedules", "zb-h1").startswith("zb-h1: ")


def test_the_listing_as_a_markdown_table(tmp_path: Path) -> None:
    assert answer("schedules", "-t", "md") == schedule_table(map(entry, names()))
    file = tmp_path / "list.md"
    assert answer("schedules", "zb-v", "-o", str(file)) == ""
    assert file.read_text().splitlines()[2].startswith("| `zb-v` | ")


def test_a_misspelt_word_is_answered_with_the_nearest() -> None:
    assert "did you mean show?" in run("shwo", "1f1b").stderr
    assert "it is a schedule: pptrace show 1f1b -P 4 -M 8" in run("1f1b").stderr
    assert "did you mean --optimizer?" in run("show", "1f1b", "--optimiser", "barrier").stderr
    assert "did you mean 1f1b?" in run("schedules", "1fb1").stderr
