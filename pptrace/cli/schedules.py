"""`pptrace schedules`: what the registry knows, as text, as a Markdown table or as JSON."""

from __future__ import annotations

import json
import os

import click

from pptrace.cli.options import common_options, complete_name, output_options
from pptrace.cli.output import deliver
from pptrace.schedules.registry import Entry, entry, names

LINES = (
    ("constraints", "needs"),
    ("makespan", "elapsed"),
    ("bubble", "bubble"),
    ("peak", "peak on rank r"),
    ("beside", "mind"),
    ("source", "source"),
)

FORMATS = ("text", "md", "json")
SUFFIXES = {".json": "json", ".md": "md", ".markdown": "md"}


@click.command()
@click.argument("name", required=False, shell_complete=complete_name)
@output_options(*FORMATS)
@common_options
def command(name: str | None, to: str | None, output: str | None) -> None:
    """List the schedules that pptrace knows (or one NAME): what they are, what they need, their closed forms, their source.

    Closed forms are for equal stages and c = 0 unless they say c; P ranks, rank r, v chunks, M microbatches, f forward,
    b full backward = i + w.

    \b
    Examples:
      pptrace schedules
      pptrace schedules zb-h1
      pptrace schedules -t md
    """
    chosen = [entry(name)] if name else [entry(known) for known in names()]
    form = to or SUFFIXES.get(os.path.splitext(output or "")[1].lower(), "text")
    if form == "json":
        text = json.dumps([as_json(found) for found in chosen], indent=2) + "\n"
    elif form == "md":
        from pptrace.render.schedule_table import schedule_table  # noqa: PLC0415  (a listing of text draws no table)

        text = schedule_table(chosen)
    else:
        text = "\n".join(paragraph(found) for found in chosen)
    deliver(text, output)


def as_json(found: Entry) -> dict[str, object]:
    """One schedule, for scripts."""
    return {
        "name": found.name,
        "summary": found.summary,
        "constraints": found.constraints,
        "options": list(found.options),
        "chunks": found.default_chunks,
        "splits_backward_or_overlaps": found.splits,
        "flush": not found.asynchronous,
        "closed_forms": {"elapsed": found.makespan, "bubble": found.bubble, "peak": found.peak},
        "beside": found.beside,
        "source": found.source,
    }


def paragraph(found: Entry) -> str:
    """One schedule, for people: its name, and a line for each thing known of it."""
    width = max(len(label) for _, label in LINES)
    lines = [f"{found.name}: {found.summary}"]
    lines += [f"    {label:<{width}}  {text}" for field, label in LINES if (text := getattr(found, field))]
    return "\n".join(lines) + "\n"
