"""`pptrace schedules`: what the registry knows, as a table or as JSON."""

from __future__ import annotations

import json

import click

from pptrace.cli.options import common_options, output_options
from pptrace.cli.output import deliver
from pptrace.errors import ParameterError
from pptrace.schedules.registry import Entry, entry, names

LINES = (
    ("constraints", "needs"),
    ("makespan", "elapsed"),
    ("bubble", "bubble"),
    ("peak", "peak on rank r"),
    ("beside", "mind"),
    ("source", "source"),
)


@click.command()
@click.argument("name", required=False)
@output_options("text", "json")
@common_options
def command(name: str | None, to: str | None, output: str | None) -> None:
    """List the schedules that pptrace knows (or one NAME): what they are, what they need, their closed forms, their source.

    Closed forms are for equal stages and c = 0 unless they say c; P ranks, rank r, v chunks, M microbatches, f forward,
    b full backward = i + w.

    \b
    Examples:
      pptrace schedules
      pptrace schedules zb-h1
    """
    chosen = [entry(name)] if name else [entry(known) for known in names()]
    if to == "json" or (to is None and output is not None and output.lower().endswith(".json")):
        text = json.dumps([as_json(found) for found in chosen], indent=2) + "\n"
    elif to in (None, "text"):
        text = "\n".join(paragraph(found) for found in chosen)
    else:
        message = f"--to {to}: a listing is text or json"
        raise ParameterError(message)
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
