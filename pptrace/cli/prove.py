"""`pptrace prove`: a schedule's gradients against the unsplit step, exactly."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

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
from pptrace.cli.output import deliver, wants_json
from pptrace.cli.source import Loaded, given, load, split_name
from pptrace.errors import ParameterError, ScheduleError
from pptrace.model import OpKind, Schedule
from pptrace.proof.arithmetic import ARITHMETICS
from pptrace.proof.choices import NORMALIZATIONS, Choice, problem_for
from pptrace.proof.lessons import lessons
from pptrace.proof.problem import DROPOUTS
from pptrace.proof.prove import prove
from pptrace.proof.written import Written, as_written
from pptrace.schedules.registry import REGISTRY
from pptrace.timeline import Timeline

if TYPE_CHECKING:
    from pptrace.costs import Costs
    from pptrace.listing import Listing
    from pptrace.proof.problem import Problem
    from pptrace.proof.prove import Proof

MESSAGES = (
    "every message is sent and received where the file says so: sends are buffered, receives wait; whether it hangs where "
    "sends wait too, `pptrace check --sends rendezvous` says"
)
MEASURED = (
    "measured ranges hold waits and sends: each rank runs in its own order, every op as soon as its input is there"
)
AS_IT_STANDS = "the ops are run rank by rank in the order of the file, each as soon as its input is there"


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
    help="tied: masks belong to samples; ordered: drawn in order of execution; redrawn: recomputation draws anew.",
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
    it, a message belongs to one microbatch. A file that holds no whole schedule is run as it stands (-M: how many microbatches
    it should have run). Exit code 1 where anything differs, also where that is to be expected.

    \b
    Examples:
      pptrace prove 1f1b -P 4 -M 3
      pptrace prove zb-h1 -P 4 -M 8 --steps 2
      pptrace prove gpipe -P 4 -M 8 --arithmetic float32
      pptrace prove 1f1b -P 4 -M 8 --normalization batch
      pptrace prove 1f1b -P 4 -M 8 --recompute full --dropout redrawn
      pptrace prove 1f1b -P 4 -M 8 --buffers 3
      pptrace prove schedule.csv -t json
    """
    choice = Choice(arithmetic, normalization, dropout, _seed(seed))
    slots = None if buffers is None else parse_count(buffers, "--buffers")
    subject, steps, costs, notes = _subject(source, options)
    schedule = subject if isinstance(subject, Schedule) else subject.schedule

    def proof_on(problem: Problem) -> Proof:
        return prove(subject, costs, steps=steps, problem=problem, slots=slots, tagged=tags == "yes")

    proof = proof_on(problem_for(schedule.num_stages, schedule.num_microbatches, choice))
    found = lessons(proof, choice, proof_on)
    if wants_json(to, output):
        from pptrace.formats.proof_json import write_proof  # noqa: PLC0415  (text needs no JSON)

        deliver(write_proof(proof, choice, found, notes), output)
    else:
        from pptrace.render.proof_text import proof_text  # noqa: PLC0415  (JSON needs no text)

        deliver(proof_text(proof, choice, found, notes), output)
    return 0 if proof.proved else 1


class _Subject(NamedTuple):
    """What is proved, how many steps of it, what its ops cost (None: the subject knows), notes for the header."""

    subject: Schedule | Timeline | Written
    steps: int
    costs: Costs | None
    notes: tuple[str, ...]


def _subject(source: str, options: ScheduleOptions) -> _Subject:
    """A name's order; a file's own times where it has them, else its order; a file that no schedule can be made of, or one
    with messages, as it stands."""
    named = split_name(source)[0] in REGISTRY
    # of a file, --steps repeats its step, and -M says how many microbatches it should have run
    loaded = load(source, options if named else options._replace(steps=None, num_microbatches=None))
    steps = options.steps or 1
    if loaded.listing is not None and not loaded.has_times:
        return _of_orders(loaded, loaded.listing, steps, options.num_microbatches)
    if not named and options.num_microbatches is not None:
        message = f"-M is for names and files of orders; {loaded.label} says itself how many microbatches it has"
        raise ParameterError(message)
    if loaded.has_times and not given(loaded.options, COST_FIELDS):
        timeline = loaded.timeline()
        return _Subject(timeline, steps, None, (*loaded.notes, *([MEASURED] if timeline.measured else [])))
    steps = 1 if named else steps  # a named schedule has been built with its steps
    return _Subject(loaded.schedule, steps, loaded.costs(), loaded.notes)


def _of_orders(loaded: Loaded, listing: Listing, steps: int, num_microbatches: int | None) -> _Subject:
    from pptrace.formats.listings import schedule_of  # noqa: PLC0415  (only for files of orders)

    refused, made = "", None
    try:
        made = schedule_of(listing, incomplete=True)
    except ScheduleError as error:
        refused = str(error)
    written = as_written(listing, num_microbatches, refused=refused)
    same_sizes = made is not None and made.schedule.num_microbatches == written.schedule.num_microbatches
    if made is None or not same_sizes or (written.needs_its_order and steps == 1):
        if steps > 1:
            message = (
                f"--steps repeats a whole step, and {loaded.label} holds none: leave --steps out to see what is wrong"
            )
            raise ParameterError(message)
        return _Subject(written, 1, None, (*loaded.notes, MESSAGES if written.has_messages else AS_IT_STANDS))
    splits = bool(made.schedule.kinds() & {OpKind.I, OpKind.W}) or bool(made.schedule.pairs)
    notes = (*loaded.notes, *(note for note in made.notes if note not in loaded.notes))
    return _Subject(made.schedule, steps, loaded.costs(splits=splits), notes)


def _seed(text: str) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > 9:
        message = f"--seed is a whole number of at most 9 digits, got {text[:40]!r}"
        raise ParameterError(message)
    return int(text)
