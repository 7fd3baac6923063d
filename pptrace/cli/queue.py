"""`pptrace queue`: the queue lab on a terminal, from a script of commands, or as a table."""

from __future__ import annotations

import sys
from textwrap import fill
from typing import TYPE_CHECKING

import click

from pptrace.cli.errors import say
from pptrace.cli.options import common_options, output_options
from pptrace.cli.output import deliver, wants_json
from pptrace.errors import ParameterError, PptraceError
from pptrace.printable import printable
from pptrace.queue_lab import COMMANDS_HELP, LIMITS, MAX_STEPS, Prediction, QueueLab, Reading, run_steps
from pptrace.rationals import parse_rational, text_of

if TYPE_CHECKING:
    from fractions import Fraction

Run = tuple["Fraction", "Fraction", list[Reading]]
MAX_SCRIPT_CHARACTERS = 1_000_000
LINE = 88
"""Characters of a line of prose."""


@click.command()
@click.option("--arrival", metavar="RATE", default=None, help="Units of work that arrive per second (default 0).")
@click.option("--service", metavar="RATE", default=None, help="Units that can be served per second (default 0).")
@click.option("--steps", metavar="N", default=None, help="Reset, then N Steps of half a second, as a table.")
@click.option(
    "--predict", metavar="GUESS", default=None, help="Your guess of the backlog after one second, to be judged."
)
@click.option(
    "--beside", metavar="ARRIVAL,SERVICE", default=None, help="A second fresh Reset with these rates beside it."
)
@output_options("text", "json")
@common_options
def command(
    arrival: str | None,
    service: str | None,
    steps: str | None,
    predict: str | None,
    beside: str | None,
    to: str | None,
    output: str | None,
) -> None:
    """The queue lab: a fluid queue with Reset (backlog 4) and Step (half a second), to think about outstanding work.

    Without --steps it takes commands: on a terminal one at a time, else from standard input, a line each. They are r
    (Reset), a RATE, s RATE, p GUESS (the backlog one second from now), n (Step), q.

    \b
    pptrace queue --arrival 2 --service 3 --steps 2 --predict 3      4 falls to 3
    pptrace queue --arrival 2 --service 3 --steps 2 --beside 0,4
    printf 'a 2\\ns 3\\np 3\\nn\\nn\\n' | pptrace queue
    """
    rates = (parse_rational(arrival or "0", "--arrival"), parse_rational(service or "0", "--service"))
    if steps is None and beside is None and predict is None and not wants_json(to, output):
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
    guess = None if predict is None else _prediction(predict, runs[0][2])
    deliver(_json(runs, guess) if wants_json(to, output) else _table(runs, guess), output)


def _step_count(steps: str | None) -> int:
    if steps is None:
        return 2
    if not steps.isascii() or not steps.isdigit() or len(steps) > len(str(MAX_STEPS)):
        message = f"--steps takes a whole number from 0 to {MAX_STEPS:,}, got {printable(steps, 40)!r}"
        raise ParameterError(message)
    return int(steps)


def _prediction(text: str, readings: list[Reading]) -> tuple[Prediction, Fraction]:
    """A guess, and the backlog of the first run at its time."""
    made = QueueLab().predict(parse_rational(text, "--predict"))
    backlog = next((reading.backlog for reading in readings if reading.time == made.time), None)
    if backlog is None:
        message = f"--predict is the backlog after {text_of(made.time)} s; give --steps 2 or more"
        raise ParameterError(message)
    return made, backlog


def _limits() -> str:
    """What the lab is not, in lines, the command at its end on one of its own."""
    sentence, command = LIMITS.rsplit(": ", 1)
    return f"{fill(sentence, LINE)}:\n  {command}"


def _table(runs: list[Run], guess: tuple[Prediction, Fraction] | None) -> str:
    """Time and backlog, one column a run, the verdict on a guess, and what the lab is not."""
    heads = ["time (s)", *(f"arrival {text_of(a)}, service {text_of(s)}" for a, s, _ in runs)]
    rows = [
        [text_of(reading.time), *(text_of(run[index].backlog) for _, _, run in runs)]
        for index, reading in enumerate(runs[0][2])
    ]
    widths = [max(map(len, column)) for column in zip(heads, *rows, strict=True)]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in [heads, *rows]
    ]
    judged = [] if guess is None else ["", f"at {text_of(guess[0].time)} s {guess[0].verdict(guess[1])}"]
    return "\n".join(["backlog of a fluid queue", "", *lines, *judged, "", _limits(), ""])


def _json(runs: list[Run], guess: tuple[Prediction, Fraction] | None) -> str:
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
    if guess is not None:
        made, backlog = guess
        head["prediction"] = {
            "time": _number(made.time),
            "guess": _number(made.guess),
            "backlog": _number(backlog),
            "right": made.guess == backlog,
        }
    if len(documents) > 1:
        head["beside"] = documents[1]
    return json.dumps({**head, "limits": LIMITS}) + "\n"


def _number(value: Fraction) -> int | float | str:
    """A JSON number where a double holds the value exactly, else the exact fraction as text."""
    if value.denominator == 1 and abs(value.numerator) < 2**53:
        return value.numerator
    return float(value) if value == float(value) else text_of(value)


def _take_commands(lab: QueueLab, output: str | None) -> None:
    """Commands from stdin. On a terminal a mistake is told and the lab goes on; in a script it ends it."""
    if sys.stdin is not None and sys.stdin.isatty():
        click.echo(f"{lab.state()}\n{fill(COMMANDS_HELP, LINE - 10)}\n{_limits()}")
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
    deliver("\n".join([*answers, "", _limits(), ""]), output)
