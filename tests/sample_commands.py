"""The commands of samples/README.md: found, run, and (as a script) used to make the samples anew."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path
from typing import NamedTuple

SAMPLES = Path(__file__).resolve().parent.parent / "samples"
GIVEN = ("README.md", "costs/eight_stages.toml", "schedules/lost_cooldown.csv")
"""Samples that no command makes."""


class Command(NamedTuple):
    """The arguments of `$ pptrace ...`, and the code that it leaves with: 0, or what `# exit 1` behind it says."""

    words: list[str]
    exit_code: int = 0

    @property
    def outputs(self) -> list[str]:
        """The files that it writes."""
        return [self.words[i + 1] for i, word in enumerate(self.words[:-1]) if word in ("-o", "--answers")]

    def __str__(self) -> str:
        return shlex.join(self.words)


def commands() -> list[Command]:
    """Every `$ pptrace ...` line in a console block, in order."""
    readme = (SAMPLES / "README.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```console\n(.*?)^```$", readme, re.MULTILINE | re.DOTALL)
    lines = [line for block in blocks for line in block.splitlines()]
    strange = [line for line in lines if not line.startswith("$ pptrace ")]
    if strange:
        message = f"samples/README.md: {strange[0]!r} is no pptrace command"
        raise ValueError(message)
    return [_command(*line.removeprefix("$ pptrace ").partition("  # exit ")[::2]) for line in lines]


def _command(text: str, code: str) -> Command:
    return Command(shlex.split(text), int(code or 0))


def main() -> None:
    """Make all samples where they are."""
    import os

    from click.testing import CliRunner

    from pptrace.cli import main as pptrace

    os.chdir(SAMPLES)
    for command in commands():
        for name in command.outputs:
            Path(name).parent.mkdir(exist_ok=True)
        result = CliRunner().invoke(pptrace, command.words)
        if result.exit_code != command.exit_code:
            sys.exit(f"pptrace {command}\nexit {result.exit_code}\n{result.output}")


if __name__ == "__main__":
    main()
