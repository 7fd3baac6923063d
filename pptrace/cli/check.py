"""`pptrace check`: what is wrong with a schedule, in a file or by name."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import click

from pptrace.check.checker import CheckOptions, check
from pptrace.check.events import GROUPINGS, SENDS
from pptrace.check.findings import CheckReport, Finding, Place, ordered
from pptrace.check.kinds import KINDS
from pptrace.check.state import LIFETIME_CODES
from pptrace.cli.costs import costs_of
from pptrace.cli.errors import BAD_ANSWER, FINE
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
from pptrace.deadlock import DeadlockError
from pptrace.errors import ParameterError, ScheduleError
from pptrace.model import OpKind
from pptrace.printable import printable
from pptrace.rationals import parse_bytes, parse_rational
from pptrace.render.findings_text import explanation_text, findings_text, github_annotations, kinds_text
from pptrace.schedules.registry import REGISTRY, nearest

if TYPE_CHECKING:
    from pptrace.costs import Costs
    from pptrace.listing import Listing
    from pptrace.model import Schedule
    from pptrace.timeline import Timeline


class Questions(NamedTuple):
    """The options of `check` itself, as they were given."""

    sends: str
    grouping: str
    tags: str
    buffers: str | None
    max_activations: str | None
    release: str
    tolerance: str
    memory_limit: str | None
    columns_are_time: bool
    advice: bool


def _list_kinds(ctx: click.Context, _: click.Parameter, wanted: bool) -> None:
    if wanted and not ctx.resilient_parsing:
        deliver(kinds_text())
        ctx.exit()


def _explain(ctx: click.Context, _: click.Parameter, code: str | None) -> None:
    if code is None or ctx.resilient_parsing:
        return
    if code not in KINDS:
        near = nearest(code, list(KINDS))
        hint = f"did you mean {near}?" if near else "`pptrace check --list` has them all"
        message = f"no finding has the code {printable(code, 40)!r}; {hint}"
        raise ParameterError(message)
    deliver(explanation_text(code))
    ctx.exit()


@click.command()
@source_argument
@schedule_options
@click.option("--sends", type=click.Choice(SENDS), default="buffered", help="Whether a send waits for its receive.")
@click.option(
    "--grouping",
    type=click.Choice(GROUPINGS),
    default="per-op",
    help="per-op: one message after another; batched: adjacent ones are posted and end together.",
)
@click.option(
    "--tags", type=click.Choice(["yes", "no"]), default="yes", help="no: the k-th receive takes the k-th message."
)
@click.option("--buffers", metavar="N", help="Activations of a stage share a ring of N slots.")
@click.option("--max-activations", metavar="N", help="The most activations that a rank may hold.")
@click.option(
    "--release",
    type=click.Choice(["own", "oldest"]),
    default="own",
    help="Which activation a backward takes and releases: its own (default), or the oldest of its stage.",
)
@click.option("--tolerance", metavar="TIME", default="0", help="How much too early a measured op may start.")
@click.option(
    "--memory-limit", metavar="SIZE", help="The most bytes that a rank may hold (with --activation-bytes, ...)."
)
@click.option("--columns-are-time", is_flag=True, help="Read the columns of a CSV file as time steps.")
@click.option("--advice/--no-advice", default=True, help="Also say what is legal but wasteful.")
@click.option("--strict", is_flag=True, help="Warnings count as errors.")
@click.option(
    "--list", is_flag=True, is_eager=True, expose_value=False, callback=_list_kinds, help="All kinds of finding."
)
@click.option(
    "--explain", metavar="CODE", is_eager=True, expose_value=False, callback=_explain, help="One kind, explained."
)
@output_options("text", "json", "github")
@common_options
def command(
    source: str, options: ScheduleOptions, to: str | None, output: str | None, strict: bool, **questions: object
) -> int:
    """Say what is wrong with a schedule: lost, doubled or mislabelled ops, deadlocks, messages, lifetimes, times.

    A name or a file of compute ops gets inline, tagged, buffered messages unless options say otherwise. Leaves with 1
    where there is an error (with --strict, a warning).

    \b
    Examples:
      pptrace check schedule.csv --sends rendezvous
      pptrace trace 1f1b -P 4 -M 8 | pptrace check -
      pptrace check interleaved -P 4 -M 10 -v 2 --group 4
    """
    asked = Questions(**questions)  # type: ignore[arg-type]
    named = split_name(source)[0] in REGISTRY
    wanted = None if named else options.num_microbatches
    loaded = load(source, options if named else options._replace(num_microbatches=None), keep_faults=True)
    report = _checked(loaded, options, asked, wanted)
    if wants_json(to, output):
        from pptrace.formats.findings_json import write  # noqa: PLC0415  (only where JSON is asked for)

        deliver(write(report, loaded.label, loaded.notes), output)
    elif to == "github":
        deliver(github_annotations(report, loaded.label), output)
    else:
        deliver(findings_text(report, loaded.label, loaded.notes), output)
    return BAD_ANSWER if report.failed(strict=strict) else FINE


def _checked(loaded: Loaded, options: ScheduleOptions, asked: Questions, wanted: int | None) -> CheckReport:
    source = _source(loaded, asked)
    chosen = CheckOptions(
        sends=asked.sends,
        grouping=asked.grouping,
        tags=asked.tags == "yes",
        num_microbatches=wanted,
        buffers=None if asked.buffers is None else parse_count(asked.buffers, "--buffers"),
        max_activations=None
        if asked.max_activations is None
        else parse_count(asked.max_activations, "--max-activations"),
        release=asked.release,
        tolerance=parse_rational(asked.tolerance, "--tolerance"),
        advice=asked.advice,
        costs=_costs(loaded, options),
    )
    stored = loaded.document.lifetimes if loaded.document is not None else ()
    report = check(source, chosen, lifetimes=stored)
    told = sum(finding.code in LIFETIME_CODES for finding in report.findings) == len(stored) > 0
    more = [
        Finding("edited-trace", Place(), sentence)
        for sentence in loaded.findings
        if not (told and sentence.startswith("$.lifetimes["))
    ]
    if asked.memory_limit is not None:
        more += _memory(loaded, parse_bytes(asked.memory_limit, "--memory-limit"), report)
    return report._replace(findings=ordered([*report.findings, *more])) if more else report


def _source(loaded: Loaded, asked: Questions) -> Listing | Schedule | Timeline:
    """What is to be checked: times where the file has them, what is written where it is a file of orders, else the order."""
    listing = loaded.listing
    if asked.columns_are_time:
        if listing is None:
            message = "--columns-are-time is for CSV files and text grids; leave it out"
            raise ParameterError(message)
        return with_slots(listing)
    if listing is not None:
        return listing
    if loaded.has_times and loaded.document is not None and loaded.document.timeline is not None:
        return loaded.document.timeline
    return loaded.schedule


def with_slots(listing: Listing) -> Listing:
    """The listing with the column of every cell as its time, empty cells counted."""
    if listing.slots:
        return listing
    slots = []
    for rank, row in enumerate(listing.rows):
        blanks = set(listing.blanks[rank]) if listing.blanks else set()
        columns = (column for column in range(len(row) + len(blanks)) if column not in blanks)
        slots.append(tuple(columns))
    return listing._replace(slots=tuple(slots))


def _costs(loaded: Loaded, options: ScheduleOptions) -> Costs | None:
    """The costs for advice: the name's, or those that were given for a file; None: one unit an op."""
    if loaded.recipe is not None:
        return loaded.costs()
    if loaded.listing is None or not given(options, COST_FIELDS):
        return None
    if options.costs is not None:
        return loaded.costs()
    kinds = {op.kind for row in loaded.listing.rows for cell in row for op in cell.ops}
    return costs_of(options, splits=bool(kinds & {OpKind.I, OpKind.W}), file=None)


def _memory(loaded: Loaded, limit: int, report: CheckReport) -> list[Finding]:
    """Bytes against the limit, where the schedule can be timed at all."""
    from pptrace.check.memory import memory_findings  # noqa: PLC0415  (only where a limit is given)

    if report.verdict.runs is not True:
        return []
    try:
        timed = loaded.report()
    except (DeadlockError, ScheduleError):  # the findings already say why
        return []
    return memory_findings(timed, limit)
