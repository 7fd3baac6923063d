"""`pptrace trace`: everything that `show` shows, as JSON."""

from __future__ import annotations

import click

from pptrace.cli.options import ScheduleOptions, common_options, output_options, schedule_options, source_argument
from pptrace.cli.output import deliver, warn
from pptrace.cli.source import load
from pptrace.formats import by_suffix
from pptrace.formats import load as load_format


@click.command()
@source_argument
@schedule_options
@output_options("json", "jsonl")
@common_options
def command(source: str, options: ScheduleOptions, to: str | None, output: str | None) -> None:
    """Write a trace: every op with its start and end, lifetimes and metrics, as JSON.

    Times are whole ticks; a time in units is ticks / ticks_per_unit. `pptrace schema` describes every field.

    \b
    Examples:
      pptrace trace 1f1b -P 4 -M 4 | pptrace show -
      pptrace trace gpipe -P 4 -M 8 -o gpipe.json
      pptrace trace 1f1b -P 2 -M 2 | jq '.events[] | [.id, .start, .end]'
    """
    loaded = load(source, options)
    report = loaded.report()
    for finding in loaded.findings:
        warn(finding)
    chosen = to or ("jsonl" if output and by_suffix(output, writing=True) == "jsonl" else "json")
    deliver(load_format(chosen).write(report), output)
