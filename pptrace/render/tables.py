"""The report's tables and lines as rows of text, without a medium: lifetimes, phases, metrics, bytes, idle time.

Plain text, Markdown and HTML lay these out. Nothing is computed here; every figure comes from a Report.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from pptrace.analysis.idle import CAUSES
from pptrace.analysis.lifetimes import ACTIVATION
from pptrace.rationals import text_of
from pptrace.render.lines import per_rank
from pptrace.render.numbers import percent, size_text, time_text, value_texts

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pptrace.analysis.closed_forms import Comparison
    from pptrace.analysis.report import Report
    from pptrace.render.names import Names

AGREES, NOT_HERE = "agrees", "does not apply"
_LONGEST = 28
"""Characters of a cell that can stand to the right."""
_NUMBER = re.compile(r"-|[-\d(][-\d\s./=x()]*")


class Table(NamedTuple):
    """A titled table: `header` and every row have the same number of cells, the first names the row. `notes` go below."""

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = ()


class MetricLine(NamedTuple):
    """One metric: its label, its value (or one per rank, in lines), and remarks: closed forms first, then the definition.

    `verdicts` are those of the remarks that are closed forms, in order.
    """

    key: str
    label: str
    values: tuple[str, ...]
    remarks: tuple[str, ...]
    verdicts: tuple[str, ...]


def lifetimes(report: Report, names: Names, ranks: Iterable[int]) -> list[Table]:
    """By kind and optimizer step: a row per stage of `ranks`, a column per microbatch, cells `from-to`; `from-i-to` where the
    backward is split and I ends at i."""
    unit, wanted = report.timeline.ticks_per_unit, set(ranks)
    num = report.schedule.num_microbatches
    cells: dict[tuple[str, int], dict[int, list[str]]] = {}
    for life in report.lifetimes:
        if life.rank in wanted:
            ticks = (life.start, life.end) if life.shrinks is None else (life.start, life.shrinks, life.end)
            rows = cells.setdefault((life.kind, life.step), {})
            text = "-".join([time_text(tick, unit) for tick in ticks])
            rows.setdefault(life.stage, [""] * num)[life.microbatch] = text
    header = ("microbatch", *(names.microbatch(microbatch) for microbatch in range(num)))
    several = report.schedule.num_steps > 1
    return [
        Table(
            _lifetime_title(report, kind) + (f", optimizer step {step}" if several else ""),
            header,
            tuple((names.stage(stage), *row) for stage, row in sorted(rows.items())),
        )
        for (kind, step), rows in sorted(cells.items())
    ]


def _lifetime_title(report: Report, kind: str) -> str:
    kinds = {kind.name for kind in report.schedule.kinds()}
    start = "R" if kind == ACTIVATION and "R" in kinds else "F"
    what = "activation" if kind == ACTIVATION else "input kept for recomputation"
    if "W" not in kinds:
        return f"lifetimes, {what}: {start} start - B end"
    if kind != ACTIVATION:
        return f"lifetimes, {what}: F start - end of B or I"
    return f"lifetimes, {what}: {start} start - I end - W end" + (" (or B end)" if "B" in kinds else "")


def phases(report: Report, names: Names, ranks: Iterable[int]) -> Table:
    """Ops per phase and rank, and the moments at which phases change."""
    found, unit = report.phases, report.timeline.ticks_per_unit
    rows = tuple(
        (
            names.row(rank),
            *(str(count) for count in found.ranks[rank][1:4]),
            time_text(found.ranks[rank].steady_from, unit),
            time_text(found.ranks[rank].cooldown_from, unit),
        )
        for rank in ranks
    )
    pipeline = (
        f"pipeline: warm-up until t={time_text(found.warmup_until, unit)} (the last stage's first backward), "
        f"drain from t={time_text(found.drain_from, unit)} (the end of its last forward)"
    )
    several, flush = report.schedule.num_steps > 1, not report.schedule.asynchronous
    step = ("; of the first optimizer step" if flush else "; of all optimizer steps together") if several else ""
    return Table(
        f"phases, in ops{step}",
        ("", "warm-up", "steady", "cooldown", "first backward at", "last forward ends at"),
        rows,
        (pipeline,),
    )


def metrics(report: Report, names: Names, room: int | None = None) -> list[MetricLine]:
    """Every metric with its definition, and its closed forms where the schedule has some. Values per rank are cut into lines
    of `room` characters."""
    unit = report.timeline.ticks_per_unit
    found = report.metrics
    equal = len(set(found["ideal"].values)) == 1
    lines = []
    for key, metric in found.items():
        if equal and key in ("busiest", "balanced"):  # they say what `ideal` says
            continue
        texts = value_texts(metric, unit)
        values = per_rank(texts, room) if metric.per == "rank" else texts
        forms = [comparison for comparison in report.closed_forms if comparison.metric == key]
        remarks = [_closed_form(comparison, metric.unit) for comparison in forms]
        if key == "peak_activations" and names.by_stage:
            remarks.append(_bound(report))
        definition = metric.definition + (f"; denominator: {metric.denominator}" if metric.denominator else "")
        lines.append(
            MetricLine(key, metric.label, tuple(values), (*remarks, definition), tuple(form.verdict for form in forms))
        )
    return lines


def _closed_form(comparison: Comparison, unit: str) -> str:
    """`closed form (P-1)/(M+P-1) = 3/7, agrees`, or why it does not apply."""
    claimed = _claimed(comparison, unit)
    stated = f"closed form {comparison.formula}" + (f" = {claimed}" if claimed else "")
    if comparison.verdict == AGREES:
        return f"{stated}, agrees"
    if comparison.verdict == NOT_HERE:
        return f"{stated}, does not apply: it needs {', '.join(comparison.failing)}"
    return f"{stated}, DIFFERS from the trace"


def _claimed(comparison: Comparison, unit: str) -> str:
    """The values of a closed form; a ratio is a fraction, as the traced one beside it."""
    in_bytes = comparison.metric == "peak_activation_bytes"
    written = size_text if in_bytes else str if unit == "ratio" else text_of
    texts = [written(value) for value in comparison.claimed]
    if len(set(texts)) == 1:
        return texts[0]
    shown = (", " if in_bytes else " ").join(texts[:16])
    return f"{shown} ..." if len(texts) > 16 else shown


def _bound(report: Report) -> str:
    bound, highest = report.memory.bound, max(peak.held for peak in report.memory.peaks)
    unit = report.memory.unit if bound != 1 else report.memory.unit.removesuffix("s")
    return f"bound P = {bound} {unit} on a rank: " + ("kept" if highest <= bound else f"passed, {highest} are held")


def sizes(report: Report, names: Names, ranks: Iterable[int]) -> Table | None:
    """Peak bytes per rank and their parts; None where no size was given."""
    found = report.bytes
    if found is None:
        return None
    unit = report.timeline.ticks_per_unit
    parts = [part for part in found.ranks[0].parts if any(rank.parts[part] for rank in found.ranks)]
    rows = tuple(
        (
            names.row(rank),
            size_text(found.ranks[rank].held),
            time_text(found.ranks[rank].at, unit),
            *(size_text(found.ranks[rank].parts[part]) for part in parts),
        )
        for rank in ranks
    )
    notes = (f"not counted, no size given: {', '.join(found.left_out)}",) if found.left_out else ()
    return Table("peak bytes, and what they are", ("", "peak", "from t", *parts), rows, notes)


def versions(report: Report, names: Names, ranks: Iterable[int], *, uses: bool = True) -> list[Table]:
    """The version of the weights that the ops of every microbatch use (where `uses`), and how many versions a rank keeps."""
    found, unit, wanted = report.versions, report.timeline.ticks_per_unit, set(ranks)
    schedule = report.schedule
    rows: dict[int, dict[tuple[int, int], str]] = {}
    for use in found.uses:
        if use.rank in wanted:
            rows.setdefault(use.stage, {})[use.step, use.microbatch] = str(use.version)
    owners = [
        (step, microbatch) for step in range(schedule.num_steps) for microbatch in range(schedule.num_microbatches)
    ]
    used = Table(
        "weight version that F and B of a microbatch use",
        ("microbatch", *(names.microbatch(microbatch, step) for step, microbatch in owners)),
        tuple((names.stage(stage), *(row.get(owner, "") for owner in owners)) for stage, row in sorted(rows.items())),
    )
    kept = Table(
        "weight versions kept",
        ("", *([] if names.by_stage else ["stage"]), "most", "from t", "staleness"),
        tuple(
            (
                names.row(stash.rank),
                *([] if names.by_stage else [str(stash.stage + names.first)]),
                str(stash.peak),
                time_text(stash.at, unit),
                str(found.staleness[stash.rank]),
            )
            for stash in found.stashes
            if stash.rank in wanted
        ),
        (
            "staleness: updates between the version that a microbatch uses and the weights its gradient is added to, at most",
        ),
    )
    return [used, kept] if uses else [kept]


def idle(report: Report, names: Names, ranks: Iterable[int]) -> Table:
    """Idle time by cause and rank, in units of time; the budget of the whole pipeline below."""
    found, unit = report.idle, report.timeline.ticks_per_unit
    causes = [cause for cause in CAUSES if any(parts[cause] for parts in found.parts)]
    rows = tuple(
        (
            names.row(rank),
            *(time_text(found.parts[rank][cause], unit) for cause in causes),
            time_text(sum(found.parts[rank][cause] for cause in causes), unit),
        )
        for rank in ranks
    )
    meanings = "; ".join(f"{cause}: {CAUSES[cause]}" for cause in causes)
    total = found.budget["total"]
    whole = report.work.elapsed * report.schedule.num_ranks
    shares = [
        f"{name} {time_text(ticks, unit)} ({percent(ticks, whole)})"
        for name, ticks in found.budget.items()
        if name != "total" and (ticks or name == "schedule")
    ]
    budget = (
        f"idle of all ranks {time_text(total, unit)} of {time_text(whole, unit)} ({percent(total, whole)}) = "
        + " + ".join(shares)
    )
    return Table("idle time by cause", ("", *causes, "all"), rows, (*([meanings] if meanings else []), budget))


def numeric_columns(table: Table) -> list[bool]:
    """By column, whether all its cells are numbers (or empty, or `-`), fractions and short lists of them included; never the
    first, which names the rows."""
    columns = list(zip(*table.rows, strict=True)) or [()] * len(table.header)
    return [index > 0 and all(map(_is_number, column)) for index, column in enumerate(columns)]


def _is_number(cell: str) -> bool:
    return len(cell) <= _LONGEST and (not cell or _NUMBER.fullmatch(cell) is not None)
