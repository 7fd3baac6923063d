"""The samples are what their commands make, byte for byte, and nothing else lies there."""

from __future__ import annotations

import json
import shutil
import tomllib
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner
from golden_data import text
from sample_commands import GIVEN, SAMPLES, Command, commands

from pptrace.cli import main

if TYPE_CHECKING:
    from pathlib import Path

COMMANDS = commands()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The samples that no command makes, and empty folders."""
    path = tmp_path_factory.mktemp("samples")
    for name in (*GIVEN, *(name for command in COMMANDS for name in command.outputs)):
        (path / name).parent.mkdir(parents=True, exist_ok=True)
    for name in GIVEN:
        shutil.copy(SAMPLES / name, path / name)
    return path


@pytest.mark.parametrize("command", COMMANDS, ids=str)
def test_a_command_makes_the_same_bytes(command: Command, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    result = CliRunner().invoke(main, command.words)
    assert (result.exit_code, result.output) == (command.exit_code, "")
    assert command.outputs
    for name in command.outputs:
        assert (folder / name).read_bytes() == (SAMPLES / name).read_bytes(), f"{name}: run tests/sample_commands.py"


def test_every_sample_has_its_command() -> None:
    there = {path.relative_to(SAMPLES).as_posix() for path in SAMPLES.rglob("*") if path.is_file()}
    assert there == {*GIVEN, *(name for command in COMMANDS for name in command.outputs)}


def test_the_costs_are_those_of_their_source() -> None:
    """The source's B is the backward for the input: b = T_B + T_W."""
    source = json.loads(text("inputs/profiled_8_stages.json"))
    costs = tomllib.loads((SAMPLES / "costs/eight_stages.toml").read_text(encoding="utf-8"))
    assert costs == {
        "unit": "us",
        "forward": source["T_F"],
        "backward": [half + weights for half, weights in zip(source["T_B"], source["T_W"], strict=True)],
        "weight_grad": source["T_W"],
        "comm": source["T_comm"],
    }
