"""`pptrace diff`: where two orders part, and what each costs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from pptrace.analysis.difference import difference
from pptrace.cli.errors import BAD_ANSWER, FINE
from pptrace.cli.options import (
    SIZE_FIELDS,
    ScheduleOptions,
    common_options,
    complete_source,
    output_options,
    schedule_options,
)
from pptrace.cli.output import deliver, note, wants_json, warn
from pptrace.cli.source import load, split_name
from pptrace.deadlock import DeadlockError
from pptrace.errors import ParameterError
from pptrace.printable import printable
from pptrace.schedules.registry import REGISTRY, entry

if TYPE_CHECKING:
    from pptrace.cli.source import Loaded
    from pptrace.model import Schedule


@click.command()
@click.argument("first", metavar="A", shell_complete=complete_source)
@click.argument("second", metavar="B", shell_complete=complete_source)
@schedule_options
@output_options("text", "json")
@common_options
def command(first: str, second: str, options: ScheduleOptions, to: str | None, output: str | None) -> int:
    """Say where two orders part, rank by rank, and what the one costs beside the other in time and memory.

    A and B are NAME[,key=value...], FILE or -. A name beside a file takes the file's sizes where none are given.
    Exit code 1 where the orders differ.

    \b
    Examples:
      pptrace diff gpipe 1f1b -P 4 -M 8
      pptrace diff schedule.csv interleaved
      pptrace diff interleaved,group=4 interleaved,group=5 -P 4 -M 10 -v 2
    """
    if first == second == "-":
        message = "standard input can be only one of the two; name a file for the other"
        raise ParameterError(message)
    loaded = _load_both(first, second, options)
    schedules = (loaded[0].schedule, loaded[1].schedule)
    for finding in (*loaded[0].findings, *loaded[1].findings):
        warn(finding)
    splits = loaded[0].splits or loaded[1].splits
    reports = None
    try:
        for one in loaded:
            one.timeline(splits=splits)
        reports = (loaded[0].report(), loaded[1].report())
    except DeadlockError as error:
        note(f"times are left out, because one of the two never ends: {error}")
    found = difference(*schedules, reports)
    names = (_called(first, loaded[0]), _called(second, loaded[1]))
    units = (reports[0].timeline.ticks_per_unit, reports[1].timeline.ticks_per_unit) if reports else (1, 1)
    if wants_json(to, output):
        from pptrace.formats import difference_json  # noqa: PLC0415  (text needs no JSON)

        deliver(difference_json.write(found, names, units), output)
    else:
        from pptrace.render.difference_text import difference_text  # noqa: PLC0415

        deliver(difference_text(found, names, units), output)
    return FINE if found.equal else BAD_ANSWER


def _called(source: str, loaded: Loaded) -> str:
    """As the user wrote it, with its settings; safe to print."""
    return loaded.label if source == "-" else printable(source, 200)


def _load_both(first: str, second: str, options: ScheduleOptions) -> tuple[Loaded, Loaded]:
    """Both; of a file and a name the file first, without the options that make schedules, so that the name can take its
    sizes."""
    named = [split_name(source)[0] in REGISTRY for source in (first, second)]
    if all(named) or not any(named):
        return load(first, options), load(second, options)
    path, name = (second, first) if named[0] else (first, second)
    file = load(path, options._replace(**dict.fromkeys(SIZE_FIELDS)))  # type: ignore[arg-type]
    other = load(
        name, _with_sizes(options._replace(from_format=None, letter_b=None), file.schedule, split_name(name)[0])
    )
    return (other, file) if named[0] else (file, other)


def _with_sizes(options: ScheduleOptions, schedule: Schedule, name: str) -> ScheduleOptions:
    """P, M and v of the other schedule, where they are not given."""
    changes: dict[str, object] = {}
    if options.num_ranks is None:
        changes["num_ranks"] = schedule.num_ranks
    if options.num_microbatches is None and options.global_batch is None:
        changes["num_microbatches"] = schedule.num_microbatches
    if options.num_chunks is None and "chunks" in entry(name).options:
        changes["num_chunks"] = schedule.num_chunks
    if options.steps is None and schedule.num_steps > 1:
        changes["steps"] = schedule.num_steps
    return options._replace(**changes)  # type: ignore[arg-type]
