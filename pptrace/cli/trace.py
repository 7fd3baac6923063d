"""`pptrace trace`: everything that `show` shows, as JSON."""

from __future__ import annotations

import click

from pptrace.cli.options import ScheduleOptions, common_options, output_options, schedule_options, source_argument
from pptrace.cli.output import deliver, warn
from pptrace.cli.source import load
from pptrace.errors import ParameterError
from pptrace.formats import by_suffix
from pptrace.formats import load as load_format
from pptrace.printable import printable


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
    chosen = to or _by_suffix(output)
    loaded = load(source, options)
    report = loaded.report()
    for finding in loaded.findings:
        warn(finding)
    deliver(load_format(chosen).write(report), output)


def _by_suffix(output: str | None) -> str:
    """The product is JSON, whatever the file is called; a name that promises something else is refused."""
    found = by_suffix(output, writing=True) if output else None
    if found not in (None, "json", "jsonl"):
        message = (
            f"trace writes json and jsonl, not {found}; for that: pptrace convert ... -o {printable(output or '', 60)}"
        )
        raise ParameterError(message)
    return found or "json"
