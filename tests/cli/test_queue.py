"""`pptrace queue`: tables, JSON, scripts, and a person at a terminal."""

from __future__ import annotations

import json
import os
import pty
import sys
from typing import TYPE_CHECKING

from click.testing import CliRunner

from pptrace.cli import main

if TYPE_CHECKING:
    from pathlib import Path


def run(*arguments: str, given: str | None = None):
    return CliRunner().invoke(main, ["queue", *arguments], input=given)


def rows(text: str) -> list[list[str]]:
    """The rows of the table under its heading."""
    lines = text.splitlines()
    start = next(index for index, line in enumerate(lines) if line.startswith("time (s)")) + 1
    return [line.split() for line in lines[start : lines.index("", start)]]


def test_a_table_of_two_steps_ends_at_three():
    assert rows(run("--arrival", "2", "--service", "3", "--steps", "2").stdout) == [
        ["0", "4"],
        ["0.5", "3.5"],
        ["1", "3"],
    ]


def test_two_resets_side_by_side():
    result = run("--arrival", "4", "--service", "4", "--steps", "2", "--beside", "0,4")
    assert rows(result.stdout) == [["0", "4", "4"], ["0.5", "4", "2"], ["1", "4", "0"]]


def test_json_has_a_list_of_steps_with_time_and_backlog():
    document = json.loads(run("--arrival", "1/3", "--service", "0", "--steps", "1", "-t", "json").stdout)
    assert document["schema"] == "pptrace.queue/1"
    assert document["steps"] == [{"time": 0, "backlog": 4}, {"time": 0.5, "backlog": "25/6"}]


def test_the_suffix_says_json(tmp_path: Path):
    file = tmp_path / "lab.json"
    assert run("--service", "4", "-o", str(file)).exit_code == 0
    assert json.loads(file.read_text())["steps"][-1] == {"time": 1, "backlog": 0}
    assert run("--service", "4", "--steps", "2", "-t", "text", "-o", str(file)).exit_code == 0
    assert rows(file.read_text())[-1] == ["1", "0"]


def test_a_guess_by_option_is_judged():
    rates = ("--arrival", "2", "--service", "3")
    assert "at 1 s you said 3: right\n" in run(*rates, "--predict", "3").stdout
    assert "at 1 s you said 2.5: off by 0.5\n" in run(*rates, "--steps", "4", "--predict", "5/2").stdout
    document = json.loads(run(*rates, "--predict", "4", "-t", "json").stdout)
    assert document["prediction"] == {"time": 1, "guess": 4, "backlog": 3, "right": False}
    assert "prediction" not in json.loads(run(*rates, "-t", "json").stdout)


def test_the_command_to_go_on_with_stands_on_a_line_of_its_own():
    for output in (run("--steps", "1").stdout, run(given="n\n").stdout):
        assert output.endswith("\n  pptrace show 1f1b -P 4 -M 4\n")
        assert max(map(len, output.splitlines())) <= 88


def test_every_output_says_what_the_lab_is_not():
    outputs = [run("--steps", "1").stdout, run("--steps", "1", "-t", "json").stdout, run(given="n\n").stdout]
    assert all("no stages, no microbatches and no bubble equation" in output for output in outputs)
    assert all("pptrace show 1f1b" in output for output in outputs)


def test_a_script_of_commands_with_a_right_prediction():
    result = run(given="a 2\ns 3\np 3\nn\nn\nq\nn\n")
    assert "1 s   backlog 3   you said 3: right" in result.stdout
    assert "1.5 s" not in result.stdout


def test_a_mistake_in_a_script_names_its_line():
    result = run(given="a 2\n\x1b[31m\n")
    assert result.exit_code == 2
    assert result.stderr.startswith("error: standard input, line 2:")
    assert "\x1b" not in result.stderr


def test_bad_rates_and_counts_are_refused_in_one_line():
    for arguments in (
        ("--arrival", "-1", "--steps", "1"),
        ("--service", "x", "--steps", "1"),
        ("--steps", "10001"),
        ("--steps", "-1"),
        ("--steps", "2", "--beside", "4"),
        ("--steps", "9" * 40),
        ("--steps", "1", "--predict", "4"),
        ("--predict", "-1"),
        ("--predict", "x"),
    ):
        result = run(*arguments)
        assert (result.exit_code, len(result.stderr.splitlines())) == (2, 1), arguments


def test_a_person_at_a_terminal_is_told_of_a_mistake_and_goes_on():
    child, terminal = pty.fork()
    if child == 0:
        os.execv(sys.executable, [sys.executable, "-m", "pptrace", "queue", "--arrival", "2", "--service", "3"])
    shown = b""
    for line in (b"z\n", b"p 3\n", b"n\n", b"n\n", b"q\n"):
        while not shown.rstrip().endswith(b"queue>"):
            shown += os.read(terminal, 4096)
        shown += b"."
        os.write(terminal, line)
    try:
        while chunk := os.read(terminal, 4096):
            shown += chunk
    except OSError:  # the terminal closes with its last process
        pass
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    assert b"'z' is no command of the lab" in shown
    assert b"1 s   backlog 3   you said 3: right" in shown
