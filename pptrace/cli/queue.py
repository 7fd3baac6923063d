"""`pptrace queue`: the queue lab on a terminal, from a script of commands, or as a table."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from pptrace.cli.errors import say
from pptrace.cli.options import common_options, output_options
from pptrace.cli.output import deliver
from pptrace.errors import ParameterError, PptraceError
from pptrace.printable import printable
from pptrace.queue_lab import COMMANDS_HELP, LIMITS, MAX_STEPS, QueueLab, Reading, run_steps
from pptrace.rationals import parse_rational, text_of

if TYPE_CHECKING:
    from fractions import Fraction

Run = tuple["Fraction", "Fraction", list[Reading]]
MAX_SCRIPT_CHARACTERS = 1_000_000


@click.command()
@click.option("--arrival", metavar="RATE", default=None, help="Units of work that arrive per second (default 0).")
@click.option("--service", metavar="RATE", default=None, help="Units that can be served per second (default 0).")
@click.option("--steps", metavar="N", default=None, help="Reset, then N Steps of half a second, as a table.")
@click.option(
    "--beside", metavar="ARRIVAL,SERVICE", default=None, help="A second fresh Reset with these rates beside it."
)
@output_options("text", "json")
@common_options
def command(
    arrival: str | None, service: str | None, steps: str | None, beside: str | None, to: str | None, output: str | None
) -> None:
    """The queue lab: a fluid queue with Reset (backlog 4) and Step (half a second), to think about outstanding work.

    Without --steps it takes commands: on a terminal one at a time, else from standard input, a line each. They are r
    (Reset), a RATE, s RATE, p GUESS (the backlog one second from now), n (Step), q.

    \b
    pptrace queue --arrival 2 --service 3 --steps 2            4 falls to 3
    pptrace queue --arrival 2 --service 3 --steps 2 --beside 0,4
    printf 'a 2\\ns 3\\np 3\\nn\\nn\\n' | pptrace queue
    """
    rates = (parse_rational(arrival or "0", "--arrival"), parse_rational(service or "0", "--service"))
    if steps is None and beside is None and to != "json":
        _take_commands(QueueLab(*rates), output)
        return
    count = _step_count(steps)
    runs: list[Run] = [(*rates, run_steps(*rates, count))]
    if beside is not None:
        first, comma, second = beside.partition(",")
        if not comma:
            message = f"--beside takes two rates, arrival and service, for example 0,4; got {printable(beside, 40)!r}"
            raise ParameterError(message)
        other = (parse_rational(first, "--beside"), parse_rational(second, "--beside"))
        runs.append((*other, run_steps(*other, count)))
    deliver(_json(runs) if to == "json" else _table(runs), output)


def _step_count(steps: str | None) -> int:
    if steps is None:
        return 2
    if not steps.isascii() or not steps.isdigit() or len(steps) > len(str(MAX_STEPS)):
        message = f"--steps takes a whole number from 0 to {MAX_STEPS:,}, got {printable(steps, 40)!r}"
        raise ParameterError(message)
    return int(steps)


def _table(runs: list[Run]) -> str:
    """Time and backlog, one column a run, and what the lab is not."""
    heads = ["time (s)", *(f"arrival {text_of(a)}, service {text_of(s)}" for a, s, _ in runs)]
    rows = [
        [text_of(reading.time), *(text_of(run[index].backlog) for _, _, run in runs)]
        for index, reading in enumerate(runs[0][2])
    ]
    widths = [max(map(len, column)) for column in zip(heads, *rows, strict=True)]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in [heads, *rows]
    ]
    return "\n".join(["backlog of a fluid queue", "", *lines, "", LIMITS, ""])


def _json(runs: list[Run]) -> str:
    import json  # noqa: PLC0415

    documents = [
        {
            "arrival": _number(a),
            "service": _number(s),
            "steps": [{"time": _number(r.time), "backlog": _number(r.backlog)} for r in readings],
        }
        for a, s, readings in runs
    ]
    head: dict[str, object] = {"schema": "pptrace.queue/1", **documents[0]}
    if len(documents) > 1:
        head["beside"] = documents[1]
    return json.dumps({**head, "limits": LIMITS}) + "\n"


def _number(value: Fraction) -> int | float | str:
    """A JSON number where a double holds the value exactly, else the exact fraction as text."""
    if value.denominator == 1 and abs(value.numerator) < 2**53:
        return value.numerator
    return float(value) if value.denominator < 2**20 and value == type(value)(float(value)) else text_of(value)


def _take_commands(lab: QueueLab, output: str | None) -> None:
    """Commands from stdin. On a terminal a mistake is told and the lab goes on; in a script it ends it."""
    if sys.stdin is not None and sys.stdin.isatty():
        click.echo(f"{lab.state()}\n{COMMANDS_HELP}\n{LIMITS}")
        while True:
            try:
                answer = lab.obey(click.prompt("queue", prompt_suffix="> ", default="n", show_default=False))
            except PptraceError as error:
                say("error", str(error))
                continue
            if answer is None:
                return
            click.echo(answer)
    if sys.stdin is None:
        message = "standard input is closed; give --arrival, --service and --steps"
        raise ParameterError(message)
    answers = [lab.state()]
    script = sys.stdin.buffer.read(MAX_SCRIPT_CHARACTERS + 1)
    if len(script) > MAX_SCRIPT_CHARACTERS:
        message = f"standard input: more than {MAX_SCRIPT_CHARACTERS:,} bytes of commands"
        raise ParameterError(message)
    for number, line in enumerate(script.decode("utf-8", "replace").splitlines(), 1):
        if not line.strip():
            continue
        try:
            answer = lab.obey(line)
        except PptraceError as error:
            message = f"standard input, line {number}: {error}"
            raise ParameterError(message) from None
        if answer is None:
            break
        answers.append(answer)
    deliver("\n".join([*answers, "", LIMITS, ""]), output)
