"""`pptrace convert`: between the formats that pptrace reads and those it writes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from pptrace.cli.options import (
    COST_FIELDS,
    ScheduleOptions,
    common_options,
    complete_source,
    output_options,
    schedule_options,
)
from pptrace.cli.output import deliver, note, warn
from pptrace.cli.source import given, load, load_run
from pptrace.errors import ParameterError
from pptrace.formats import FORMATS, by_suffix
from pptrace.formats import load as load_format
from pptrace.printable import printable

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pptrace.cli.source import Loaded

ORDER_FORMATS = ("torch-compute", "torch-comms")
RECEIVES = ("early", "deferred", "inline")


@click.command()
@click.argument("sources", metavar="NAME|FILE|- ...", nargs=-1, required=True, shell_complete=complete_source)
@schedule_options
@click.option(
    "--recv",
    type=click.Choice(RECEIVES),
    help="Add messages: early and deferred as PyTorch lowers a schedule, inline right before use. Default early.",
)
@click.option(
    "--time-unit",
    metavar="TIME",
    help="How long a unit of time is in a Chrome trace: us, 2.5ms. Default: the unit of the costs, else 1ms.",
)
@output_options()
@common_options
def command(
    sources: tuple[str, ...],
    options: ScheduleOptions,
    recv: str | None,
    time_unit: str | None,
    to: str | None,
    output: str | None,
) -> None:
    """Read a schedule, a trace or a file in any format and write it in another, by suffix or --from and --to.

    What the new format cannot carry is said once, on stderr. A file with messages stays one with messages, as it is, unless
    --recv makes them anew or --to torch-compute takes them off. Several files, or a directory, are the profiler traces of
    one run, one of each rank.

    \b
    Examples:
      pptrace convert schedule.csv -o schedule.json
      pptrace convert schedule.csv -o lowered.csv --recv deferred
      pptrace convert zb-h1 -P 4 -M 8 -o zb.csv
      pptrace convert interleaved -P 4 -M 8 -v 2 --to torch-comms
      pptrace convert 1f1b -P 4 -M 8 -o run.perfetto.json
      pptrace convert run.rank0.json run.rank1.json -o run.json
    """
    loaded = load(sources[0], options) if len(sources) == 1 else load_run(list(sources), ", ".join(sources), options)
    chosen = _format(to, output, recv, loaded)
    if time_unit is not None and chosen != "chrome":
        message = f"--time-unit is for Chrome traces, not for {chosen}; say --to chrome, or leave it out"
        raise ParameterError(message)
    for finding in loaded.findings:
        warn(finding)
    content: str | bytes | Iterable[bytes]
    if chosen in ORDER_FORMATS:
        content, remarks = _order(loaded, chosen, recv)
    elif chosen == "grid":
        content, remarks = _grid(loaded)
    elif chosen == "chrome":
        content, remarks = load_format(chosen).write(loaded.report(), time_unit=time_unit), _left_out(loaded)
    else:
        content, remarks = load_format(chosen).write(loaded.report()), _left_out(loaded)
    if remarks:
        note("; ".join(dict.fromkeys(remarks)))
    deliver(content, output)


def _format(to: str | None, output: str | None, recv: str | None, loaded: Loaded) -> str:
    """What is to be written. Raises `ParameterError` where nothing says it, or two things say different ones."""
    writable = [name for name, format_ in FORMATS.items() if format_.writes or name == "grid"]
    chosen = to
    if chosen is None:
        if output is None or output == "-":
            message = "say what to write: -o FILE with a suffix, or --to " + ", ".join(writable)
            raise ParameterError(message)
        chosen = "grid" if output.lower().endswith(FORMATS["grid"].suffixes) else by_suffix(output, writing=True)
        if chosen is None:
            message = f"-o {printable(output[-60:])}: no format has this suffix; say --to {', '.join(writable)}"
            raise ParameterError(message)
        if chosen == "torch-compute" and (recv is not None or _has_messages(loaded)):
            chosen = "torch-comms"
    elif chosen not in writable:
        load_format(chosen)  # a word that is no format at all is answered with the nearest
        message = f"--to {chosen}: pptrace reads this format but does not write it; it writes {', '.join(writable)}"
        raise ParameterError(message)
    if recv is not None and chosen != "torch-comms":
        message = f"--recv adds messages, which {chosen} cannot hold; say --to torch-comms, or leave --recv out"
        raise ParameterError(message)
    return chosen


def _has_messages(loaded: Loaded) -> bool:
    from pptrace.formats.lowering import has_messages  # noqa: PLC0415  (only for schedule files)

    return loaded.listing is not None and has_messages(loaded.listing)


def _order(loaded: Loaded, chosen: str, recv: str | None) -> tuple[bytes, list[str]]:
    """A PyTorch schedule file, of a file's own cells (empty ones kept) or of a schedule's ops."""
    from pptrace.formats import torch_csv  # noqa: PLC0415  (only where one is written)
    from pptrace.formats.listings import listing_of  # noqa: PLC0415
    from pptrace.formats.lowering import for_torch, lower  # noqa: PLC0415

    schedule = loaded.schedule  # what cannot be built is refused here, with its place
    listing = loaded.listing or listing_of(schedule)
    compute, left_out = for_torch(listing)
    remarks = [remark for remark in listing.notes if "input half" in remark]
    if _has_times(loaded):
        remarks.append("a PyTorch schedule file holds an order; times are left out")
    if chosen == "torch-compute":
        return torch_csv.write(compute), [*remarks, *([left_out] if left_out else [])]
    if recv is None and _has_messages(loaded):
        return torch_csv.write(listing), remarks
    if loaded.listing is None and left_out:
        remarks.append(left_out)
    return torch_csv.write(lower(compute, recv or "early")), remarks


def _grid(loaded: Loaded) -> tuple[bytes, list[str]]:
    from pptrace.render.grid import grid  # noqa: PLC0415  (only where it is drawn)
    from pptrace.render.options import RenderOptions  # noqa: PLC0415
    from pptrace.render.text import report_text  # noqa: PLC0415

    report = loaded.report()
    text = report_text(report, RenderOptions(sections=("header", "legend", "grid")))
    remarks = _left_out(loaded)
    if _has_times(loaded):
        remarks.append("a text grid holds compute ops at their time steps; costs, messages and updates are left out")
    if not grid(report.timeline).scale.exact:
        remarks.append("the grid is not to scale; times are rounded")
    return text.encode("utf-8"), remarks


def _has_times(loaded: Loaded) -> bool:
    """Whether times were read, or asked for: then it is a loss where they are not written."""
    return loaded.has_times or bool(given(loaded.options, COST_FIELDS))


def _left_out(loaded: Loaded) -> list[str]:
    """What a file has that a timeline does not: messages and sharding."""
    return [remark for remark in loaded.notes if "are left out" in remark] if loaded.listing is not None else []
