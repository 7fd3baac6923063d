"""Run the command in this process: what it printed, and how it left."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from click.testing import CliRunner

from pptrace.cli import main

if TYPE_CHECKING:
    from click.testing import Result


def run(*args: str, stdin: str | bytes | None = None, env: dict[str, str] | None = None) -> Result:
    """The result of one command line. An exception that is not an exit is a fault of the program, and raised."""
    result = CliRunner().invoke(main, list(args), input=stdin, env=env)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def answer(*args: str, stdin: str | bytes | None = None) -> str:
    """The stdout of a command line that must succeed and say nothing else."""
    result = run(*args, stdin=stdin)
    assert (result.exit_code, result.stderr) == (0, "")
    return result.stdout


def trace_of(*args: str) -> dict[str, Any]:
    """The parsed trace of a command line's schedule."""
    return json.loads(answer("trace", *args))


def refusal(*args: str, stdin: str | bytes | None = None, code: int = 2) -> str:
    """The one error line of a command line that must fail, without its `error: `."""
    result = run(*args, stdin=stdin)
    assert result.exit_code == code, result.output
    assert result.stdout == ""
    assert result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 1
    return result.stderr.removeprefix("error: ").rstrip("\n")
