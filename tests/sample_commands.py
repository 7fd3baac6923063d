"""The commands of samples/README.md: found, run, and (as a script) used to make the samples anew."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

SAMPLES = Path(__file__).resolve().parent.parent / "samples"
GIVEN = ("README.md", "costs/eight_stages.toml", "schedules/lost_cooldown.csv")
"""Samples that no command makes."""


def commands() -> list[list[str]]:
    """The arguments of every `$ pptrace ...` line in a console block, in order."""
    readme = (SAMPLES / "README.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```console\n(.*?)^```$", readme, re.MULTILINE | re.DOTALL)
    lines = [line for block in blocks for line in block.splitlines()]
    strange = [line for line in lines if not line.startswith("$ pptrace ")]
    if strange:
        message = f"samples/README.md: {strange[0]!r} is no pptrace command"
        raise ValueError(message)
    return [shlex.split(line.removeprefix("$ pptrace ")) for line in lines]


def outputs(command: Sequence[str]) -> list[str]:
    """The files that a command writes."""
    return [command[i + 1] for i, word in enumerate(command[:-1]) if word in ("-o", "--answers")]


def main() -> None:
    """Make all samples where they are."""
    import os

    from click.testing import CliRunner

    from pptrace.cli import main as pptrace

    os.chdir(SAMPLES)
    for command in commands():
        result = CliRunner().invoke(pptrace, command)
        if result.exit_code:
            sys.exit(f"pptrace {shlex.join(command)}\n{result.output}")


if __name__ == "__main__":
    main()
