"""Run the command in this process and give what it printed; for tests outside tests/cli."""

from __future__ import annotations

from click.testing import CliRunner

from pptrace.cli import main


def command_output(*args: str) -> str:
    """The stdout of a command line that must succeed."""
    result = CliRunner().invoke(main, list(args))
    assert (result.exit_code, result.stderr) == (0, "")
    return result.stdout
