"""`pptrace prove`: a schedule's gradients against the unsplit step, exactly."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from pptrace.cli.options import (
    COST_FIELDS,
    ScheduleOptions,
    common_options,
    output_options,
    parse_count,
    schedule_options,
    source_argument,
)
from pptrace.cli.output import deliver
from pptrace.cli.source import Loaded, given, load
from pptrace.errors import ParameterError
from pptrace.model import OpKind
from pptrace.proof.arithmetic import ARITHMETICS
from pptrace.proof.lessons import NORMALIZATIONS, Choice, lessons, problem_for
from pptrace.proof.messages import has_messages
from pptrace.proof.problem import DROPOUTS
from pptrace.proof.prove import prove
from pptrace.timeline import Timeline

if TYPE_CHECKING:
    from pptrace.listing import Listing
    from pptrace.model import Schedule

MESSAGES = "every message is sent and received where the file says so: sends are buffered, receives wait"


@click.command()
@source_argument
@schedule_options
@click.option("--arithmetic", type=click.Choice(ARITHMETICS), default="exact", help="Of the model; default exact.")
@click.option(
    "--normalization",
    type=click.Choice(NORMALIZATIONS),
    default="mean",
    help="mean: 1/M each (default); sum: without it; batch: batch statistics; unequal: microbatches of 2 and 1 samples.",
)
@click.option(
    "--dropout",
    type=click.Choice(DROPOUTS),
    default="none",
    help="tied: masks belong to samples; ordered: drawn in order of execution.",
)
@click.option("--buffers", metavar="N", help="Activations of a stage share a ring of N slots, as in DeepSpeed.")
@click.option(
    "--tags",
    type=click.Choice(["yes", "no"]),
    default="yes",
    help="no: a message is taken for the next one that comes.",
)
@click.option("--seed", metavar="N", default="0", help="Of weights, data and masks; default 0.")
@output_options("text", "json")
@common_options
def command(
    source: str,
    options: ScheduleOptions,
    arithmetic: str,
    normalization: str,
    dropout: str,
    buffers: str | None,
    tags: str,
    seed: str,
    to: str | None,
    output: str | None,
) -> int:
    """Run a small exact model through a schedule, op by op, and compare every gradient with the unsplit step.

    Each stage is one slice of the model. States are owned strictly: an activation lives from its F until its B (or W) consumes
    it, a message belongs to one microbatch. Exit code 1 where anything differs, also where that is to be expected.

    \b
    Examples:
      pptrace prove 1f1b -P 4 -M 3
      pptrace prove zb-h1 -P 4 -M 8 --steps 2
      pptrace prove gpipe -P 4 -M 8 --arithmetic float32
      pptrace prove 1f1b -P 4 -M 8 --buffers 3
      pptrace prove schedule.csv -t json
    """
    choice = Choice(arithmetic, normalization, dropout, _seed(seed))
    slots = None if buffers is None else parse_count(buffers, "--buffers")
    loaded = load(source, options) if _is_named(source) else load(source, options._replace(steps=None))
    steps = 1 if loaded.recipe is not None else options.steps or 1
    subject, listing, notes = _subject(loaded, steps)
    schedule = subject.schedule if isinstance(subject, Timeline) else subject
    splits = bool(schedule.kinds() & {OpKind.I, OpKind.W}) or bool(schedule.pairs)
    costs = None if isinstance(subject, Timeline) else loaded.costs(splits=splits)
    problem = problem_for(schedule.num_stages, schedule.num_microbatches, choice)
    proof = prove(subject, costs, steps=steps, problem=problem, slots=slots, tagged=tags == "yes", listing=listing)
    found = lessons(proof, choice, subject, costs)
    if to == "json" or (to is None and output is not None and output.endswith(".json")):
        from pptrace.formats.proof_json import write_proof  # noqa: PLC0415  (text needs no JSON)

        deliver(write_proof(proof, choice, found, notes), output)
    else:
        from pptrace.render.proof_text import proof_text  # noqa: PLC0415  (JSON needs no text)

        deliver(proof_text(proof, choice, found, notes), output)
    return 0 if proof.proved else 1


def _is_named(source: str) -> bool:
    from pptrace.cli.source import split_name  # noqa: PLC0415
    from pptrace.schedules.registry import REGISTRY  # noqa: PLC0415

    return split_name(source)[0] in REGISTRY


def _subject(loaded: Loaded, steps: int) -> tuple[Schedule | Timeline, Listing | None, tuple[str, ...]]:
    """What is proved: a file's own times where it has them, else its order, complete or not; the listing whose messages are
    to be carried; notes for the header."""
    if loaded.has_times and not given(loaded.options, COST_FIELDS):
        return loaded.timeline(), None, loaded.notes
    if loaded.listing is None or loaded.has_times:
        return loaded.schedule, None, loaded.notes
    from pptrace.formats.listings import schedule_of  # noqa: PLC0415  (only for files of orders)

    made = schedule_of(loaded.listing, incomplete=True)
    if steps == 1 and has_messages(loaded.listing):
        return made.schedule, loaded.listing, (*loaded.notes, MESSAGES)
    return made.schedule, None, (*loaded.notes, *(note for note in made.notes if note not in loaded.notes))


def _seed(text: str) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > 9:
        message = f"--seed is a whole number of at most 9 digits, got {text[:40]!r}"
        raise ParameterError(message)
    return int(text)
