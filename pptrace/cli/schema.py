"""`pptrace schema`: the JSON Schema of a trace."""

from __future__ import annotations

import click

from pptrace.cli.options import common_options, output_option
from pptrace.cli.output import deliver
from pptrace.formats import schema


@click.command()
@click.option("--lines", is_flag=True, help="The schema of one line of JSON Lines (a header or an event).")
@output_option
@common_options
def command(lines: bool, output: str | None) -> None:
    """Print the JSON Schema (2020-12) of the trace that pptrace writes and reads.

    \b
    Example:
      pptrace schema -o pptrace-trace.schema.json
    """
    deliver(schema.text(lines=lines), output)
