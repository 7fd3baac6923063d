"""A whole report as lines and as plain text: header, legend, grid, strip, tables. Characters only; the terminal's colours
are laid over the same lines."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from pptrace.model import OpKind
from pptrace.printable import printable
from pptrace.render import tables
from pptrace.render.draw import Canvas, grid_lines, held_lines
from pptrace.render.grid import Layout, grid
from pptrace.render.held import held, versions_held
from pptrace.render.lines import BAD, GOOD, PLAIN, Line, columns, folded, heading, plain, style_of, text_of_line
from pptrace.render.names import KIND_MEANING, KIND_TEXT, UP_MARK, Names
from pptrace.render.options import MANY_LIFETIMES, SECTIONS, RenderOptions

if TYPE_CHECKING:
    from pptrace.analysis.report import Report
    from pptrace.render.tables import MetricLine, Table

PROSE = 110
"""Sentences are folded at this many characters, or at the width if it is less; the grid never is in a pipe."""

_VALUE_WIDTHS = (17, 26)
"""The column of a metric's value is as wide as its longest one-line value needs, within these bounds."""
_REMARKS = 80
"""Remarks beside a value are folded at this many characters, or at the width if it is less."""
_LEAST_BESIDE = 110
"""From this width on the remarks of a metric stand beside its value, else below it."""


def report_text(report: Report, options: RenderOptions | None = None) -> str:
    """The report as plain text, lines ending in a newline; the sections that `options` names, or all."""
    return "".join([text_of_line(line) + "\n" for line in report_lines(report, options)])


def report_lines(report: Report, options: RenderOptions | None = None) -> list[Line]:
    """The report as styled lines, a blank line between sections. Raises `ParameterError` for options that show nothing."""
    page = _Page(report, options or RenderOptions())
    lines: list[Line] = []
    for name in page.options.sections or SECTIONS:
        section: list[Line] = getattr(page, name)()
        if section:
            lines += [[], *section] if lines else section
    return lines


class _Page:
    """The sections of one report, each made when asked for; the layout is shared."""

    def __init__(self, report: Report, options: RenderOptions) -> None:
        self.report = report
        self.options = options
        self.prose = min(options.width or PROSE, PROSE)

    @cached_property
    def names(self) -> Names:
        return self.layout.names

    @cached_property
    def layout(self) -> Layout:
        timeline = self.report.timeline
        return grid(timeline, self.options, self.report.idle.slots if self.report.costs.has_communication else ())

    @cached_property
    def canvas(self) -> Canvas:
        return Canvas(self.layout, self.options.width)

    @property
    def ranks(self) -> list[int]:
        return [row.rank for row in self.layout.rows]

    def _sentences(self, text: str, indent: str = "  ") -> list[Line]:
        return [plain(line) for line in folded(printable(text), self.prose, indent)]

    def header(self) -> list[Line]:
        headline = printable("   ".join(self.report.headline))
        lines = [heading(line) for line in folded(headline, self.options.width)]
        lines += self._sentences("; ".join(self.report.assumptions))
        lines += self._sentences(self.report.omitted)
        if self.report.advice:
            lines += [heading(line) for line in folded(f"advice: {self.report.advice}", self.prose)]
        return lines

    def legend(self) -> list[Line]:
        layout, names = self.layout, self.names
        lines: list[Line] = []
        line: Line = []
        used = 0
        for sample, style, meaning in self._signs():
            text = f" {meaning}"
            if used and used + len(sample) + len(text) + 3 > self.prose:
                lines.append(line)
                line, used = [], 0
            if used:
                line.append(("   ", PLAIN))
            line += [(sample, style), (text, PLAIN)]
            used += len(sample) + len(text) + 3
        lines.append(line)
        unit = f" {layout.unit}" if layout.unit and layout.scale.exact else ""
        scale = layout.scale.note() + unit
        if not layout.scale.exact and layout.unit:
            scale = f"times in {layout.unit}; {scale}"
        return lines + self._sentences("; ".join([*self._rows_and_cells(names), printable(scale), *self._hints()]))

    def _signs(self) -> list[tuple[str, str, str]]:
        """(sign, its style, what it means) for what the grid shows."""
        layout = self.layout
        signs = [(KIND_TEXT[kind], style_of(kind, 0), KIND_MEANING[kind]) for kind in layout.kinds]
        signs.append((".", PLAIN, "idle"))
        if any(row.waits for row in layout.rows):
            signs.append(("~", PLAIN, "idle, its message is under way"))
        if any(self.canvas.goes_on(cell) for row in layout.rows for cell in row.cells):
            signs.append(("-", PLAIN, "the op goes on"))
        if any(len(cell.parts) > 1 for row in layout.rows for cell in row.cells) and not layout.compact:
            signs.append(("+", PLAIN, "two ops overlap"))
        if self.report.schedule.placement.bidirectional and not layout.compact:
            signs.append((UP_MARK, PLAIN, "on the copy that goes up"))
        if any(row.bars for row in layout.rows) and (not layout.compact or self.canvas.inserted):
            signs.append(("|", PLAIN, "end of an optimizer step"))
        return signs

    def _rows_and_cells(self, names: Names) -> list[str]:
        if not self.layout.compact:
            cells = (cell for row in self.layout.rows for cell in row.cells)
            return names.explained(next((cell.position for cell in cells if cell.kind < OpKind.REDUCE), -1))
        texts = ["a letter is the kind of op"]
        if self.report.schedule.num_chunks > 1:
            texts.append("small letters are every other chunk of a rank")
        if self.report.schedule.placement.bidirectional:
            texts.append("small letters are the copy that goes up")
        texts.append("rows are stages" if names.by_stage else "rows are ranks")
        return texts + names.counting()

    def _hints(self) -> list[str]:
        if len(self.canvas.panels) > 3 and not self.options.compact:
            return ["--compact or --window T0:T1 make it narrower"]
        return []

    def grid(self) -> list[Line]:
        return grid_lines(self.canvas)

    def held(self) -> list[Line]:
        memory = self.report.memory
        title = f"{memory.unit} held"
        if self.layout.compact and max(peak.held for peak in memory.peaks) > 9:
            title += " (a = 10, b = 11, ...; * = 36 or more)"
        lines = held_lines(self.canvas, held(self.report, self.layout), title, self.options.width)
        if memory.recomputes:
            inputs = held(self.report, self.layout, "input")
            lines += [[], *held_lines(self.canvas, inputs, "inputs held for recomputation", self.options.width)]
        if self.report.schedule.asynchronous:
            kept = versions_held(self.report, self.layout)
            lines += [[], *held_lines(self.canvas, kept, "weight versions kept", self.options.width)]
        return lines

    def lifetimes(self) -> list[Line]:
        number = len(self.report.lifetimes)
        if number > MANY_LIFETIMES and "lifetimes" not in self.options.sections:
            return [
                *[heading("lifetimes")],
                *self._sentences(f"{number:,} of them: --section lifetimes prints them, `pptrace trace` lists them"),
            ]
        lines: list[Line] = []
        for table in tables.lifetimes(self.report, self.names, self.ranks):
            lines += [[]] if lines else []
            lines += self._table(table, left=1 + self.report.schedule.num_microbatches)
        return lines

    def phases(self) -> list[Line]:
        return self._table(tables.phases(self.report, self.names, self.ranks))

    def bytes(self) -> list[Line]:
        table = tables.sizes(self.report, self.names, self.ranks)
        return self._table(table) if table else []

    def versions(self) -> list[Line]:
        """Under a flush there is one version, which the header says."""
        asked = "versions" in self.options.sections
        if not self.report.schedule.asynchronous and not asked:
            return []
        uses = asked or len(self.report.versions.uses) <= MANY_LIFETIMES
        lines: list[Line] = []
        for table in tables.versions(self.report, self.names, self.ranks, uses=uses):
            lines += [[]] if lines else []
            lines += self._table(table)
        return lines

    def idle(self) -> list[Line]:
        return self._table(tables.idle(self.report, self.names, self.ranks))

    def _table(self, table: Table, left: int = 1) -> list[Line]:
        """A table, cut into as many as fit the width side by side, the names of the rows repeated."""
        lines = [heading(line) for line in folded(table.title, self.options.width)]
        rows = [table.header, *table.rows]
        for first, last in self._cuts(rows):
            piece = [(row[0], *row[first:last]) for row in rows]
            lines += [[]] if first > 1 else []
            lines += [plain(line) for line in columns(piece, left=left)]
        for note in table.notes:
            lines += self._sentences(note)
        return lines

    def _cuts(self, rows: list[tuple[str, ...]]) -> list[tuple[int, int]]:
        """[from, to) of the columns that stand side by side, without the first."""
        widths = [max(map(len, column)) + 2 for column in zip(*rows, strict=True)]
        if self.options.width is None or sum(widths) - 2 <= self.options.width:
            return [(1, len(widths))]
        cuts, first, used = [], 1, widths[0]
        for index in range(1, len(widths)):
            if used + widths[index] - 2 > self.options.width and index > first:
                cuts.append((first, index))
                first, used = index, widths[0]
            used += widths[index]
        return [*cuts, (first, len(widths))]

    def metrics(self) -> list[Line]:
        label_width = max(len(metric.label) for metric in self.report.metrics.values()) + 3
        found = tables.metrics(self.report, self.names, self._room(label_width))
        beside = self.options.width is None or self.options.width >= _LEAST_BESIDE
        narrowest, widest = _VALUE_WIDTHS
        fitting = [len(line.values[0]) + 2 for line in found if len(line.values[0]) + 2 <= widest]
        value_width = max(narrowest, *fitting)
        lines: list[Line] = []
        for metric in found:
            lines += self._metric(metric, label_width, value_width, beside=beside)
        return lines

    def _room(self, label_width: int) -> int | None:
        """The characters of a line of values: beside their label, or where that leaves few, of a line of their own."""
        if self.options.width is None:
            return None
        room = self.options.width - label_width
        return room if room >= _VALUE_WIDTHS[1] else self.options.width - 4

    def _metric(self, metric: MetricLine, label_width: int, value_width: int, *, beside: bool) -> list[Line]:
        rows = [(f"{metric.label:<{label_width}}", metric.values[0])]
        rows += [(" " * label_width, value) for value in metric.values[1:]]
        remarks = [
            (text, (GOOD if metric.verdicts[i] == tables.AGREES else BAD) if i < len(metric.verdicts) else PLAIN)
            for i, text in enumerate(metric.remarks)
        ]
        lines: list[Line] = []
        if not beside or len(metric.values) > 1 or len(metric.values[0]) > value_width - 2:
            most = self.options.width
            if most is not None and any(len(label + value) > most for label, value in rows):
                lines.append(plain(rows[0][0].rstrip()))
                rows = [("    ", value) for _, value in rows]
            lines += [plain(label + value) for label, value in rows]
            indent = " " * (label_width + value_width if beside else 4)
            width = min(self.options.width or len(indent) + _REMARKS, len(indent) + _REMARKS)
            return lines + [[(line, style)] for text, style in remarks for line in _indented(text, indent, width)]
        label, value = rows[0]
        first = f"{label}{value:<{value_width}}"
        width = min(self.options.width or len(first) + _REMARKS, len(first) + _REMARKS)
        for text, style in remarks:
            for line in _indented(text, " " * len(first), width):
                if lines:
                    lines.append([(line, style)])
                else:
                    lines.append([(first, PLAIN), (line[len(first) :], style)])
        return lines


def _indented(text: str, indent: str, width: int) -> list[str]:
    return [indent + line for line in folded(text, width - len(indent))]
