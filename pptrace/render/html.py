"""A report as one HTML page: the figure and the tables, to be read offline and without a script; with one, ops tell what
they wait for. It owns the page's markup and the data of its script; the figure is svg.py's, the script html_script.py's."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from pptrace.analysis.idle import CAUSES
from pptrace.render import tables
from pptrace.render.figure import figure
from pptrace.render.figure_parts import FigureOptions
from pptrace.render.figure_text import caption, headline
from pptrace.render.html_script import PAGE_COLORS, PAGE_STYLE, SCRIPT
from pptrace.render.measure import number
from pptrace.render.options import MANY_LIFETIMES
from pptrace.render.palette import DARK, LIGHT, Theme
from pptrace.render.svg import svg_of, text
from pptrace.render.svg_style import FONTS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pptrace.analysis.report import Report
    from pptrace.render.figure_parts import Figure
    from pptrace.render.names import Names
    from pptrace.render.tables import MetricLine, Table

POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"
"""What the page may load: nothing."""
LEGIBLE = 7.5
"""Pixels: a figure shrinks with the window until its names are this small, and is scrolled from there on."""
SHORT_VALUE = 24
"""Characters of a value that is not folded."""
HINT = "Point at an op to see what it waited for and who waits for it; click to keep it, Escape to let it go."


def html_page(report: Report, options: FigureOptions | None = None) -> str:
    """The whole page. Raises `ParameterError` as `figure` does."""
    options = options or FigureOptions()
    drawn = figure(report, options._replace(title=False, caption=False, prefix=options.prefix or "pp"))
    names = drawn.picture.names
    name, sizes = headline(report, names)
    ranks = [row.rank for row in drawn.rows]
    body = [
        f"<h1>{text(name)}</h1>",
        f"<p>{text(sizes)}</p>",
        *([] if options.caption else [paragraph("; ".join(report.assumptions), "less")]),
        interactive_figure(report, drawn, caption(report, names, told=not options.holes) if options.caption else ()),
    ]
    if not options.holes:
        body += ["<h2>Metrics</h2>", metrics_html(tables.metrics(report, names))]
        body += [table_html(table) for table in _tables(report, names, ranks)]
    body += [] if options.caption else [paragraph(report.omitted, "less")]
    return page(name, "\n".join(body), options.theme, script_of(drawn.options.prefix))


def write(report: Report, options: FigureOptions | None = None) -> bytes:
    """For the table of formats: the bytes of an HTML file."""
    return html_page(report, options).encode()


def page(title: str, body: str, theme: str = "auto", script: str = "") -> str:
    """A page around `body`, which is markup; `script` is code or empty."""
    end = f"<script>{script}</script>\n" if script else ""
    return (
        "<!DOCTYPE html>\n"
        '<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{text(title)}</title>\n<style>{page_style(theme)}</style>\n</head>\n"
        f"<body>\n<main>\n{body}\n</main>\n{end}</body>\n</html>\n"
    )


def page_style(theme: str) -> str:
    """The page's style sheet for a theme of `FigureOptions`."""
    scheme = {"light": "light", "dark": "dark"}.get(theme, "light dark")
    sheet = PAGE_STYLE.replace("SCHEME", scheme).replace("FONTS", FONTS)
    sheet += _colors(DARK if theme == "dark" else LIGHT)
    return sheet + (f"@media (prefers-color-scheme:dark){{{_colors(DARK)}}}" if theme == "auto" else "")


def _colors(theme: Theme) -> str:
    chip = "#262B31" if theme is DARK else "#F0F0F0"
    named = {"PAPER": theme.paper, "INK": theme.ink, "FAINT": theme.faint, "LINE": theme.line, "CHIP": chip}
    sheet = PAGE_COLORS
    for name, color in named.items():
        sheet = sheet.replace(name, color)
    return sheet


def script_of(*prefixes: str) -> str:
    """The code that brings the figures with these prefixes to life; none for none."""
    calls = "".join(f"enliven({script_json(prefix)});\n" for prefix in prefixes)
    return SCRIPT + calls if calls else ""


def interactive_figure(report: Report, drawn: Figure, captions: Iterable[str] = ()) -> str:
    """A `<figure>` with the drawn figure, its controls (hidden without the script) and the script's data."""
    prefix = drawn.options.prefix
    words = "\n".join(paragraph(sentence) for sentence in captions)
    return (
        f'<figure id="{prefix}-figure">\n'
        '<div class="tools" hidden>'
        '<button type="button" data-zoom="out" aria-label="zoom out">&#8722;</button>'
        '<button type="button" data-zoom="in" aria-label="zoom in">+</button>'
        '<button type="button" data-zoom="fit">fit</button><button type="button" data-zoom="full">100 %</button>'
        '<label>time <input type="range" min="0" max="0" step="1" value="0"></label><output></output></div>\n'
        '<ul class="now" hidden></ul>\n'
        f'<div class="scroll" tabindex="0" role="region" aria-label="the figure">{fitted_svg(drawn)}</div>\n'
        '<p class="told" aria-live="polite" hidden></p>\n'
        f"<figcaption>{words}</figcaption>\n"
        f'<script type="application/json" id="{prefix}-data">{script_json(_data(report, drawn))}</script>\n'
        "</figure>"
    )


def fitted_svg(drawn: Figure) -> str:
    """The drawn figure as wide as there is room, at most its natural width, and not so narrow that its names cannot be read."""
    least = drawn.width * min(1.0, LEGIBLE / drawn.font)
    size = f"width:100%;max-width:{number(drawn.width)}px;min-width:{number(least)}px"
    return svg_of(drawn).replace("<svg ", f'<svg style="{size}" ', 1)


def script_json(data: Any) -> str:
    """JSON that cannot end the element it stands in."""
    dumped = json.dumps(data, separators=(",", ":"))
    return dumped.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _data(report: Report, drawn: Figure) -> dict[str, Any]:
    """What the script needs, all lists by box; producers and idle slots of holes are not told, nor what is held beside them."""
    timeline, memory = report.timeline, report.memory
    boxes = [box for row in drawn.rows for box in row.boxes]
    index = {box.position: number for number, box in enumerate(boxes)}
    first = [0]
    for row in drawn.rows:
        first.append(first[-1] + len(row.boxes))
    after = timeline.dependencies.after
    causes = list(CAUSES)
    idle: dict[int, list[tuple[int, int, int]]] = {}
    for slot in report.idle.slots:
        if slot.position in index and slot.position not in drawn.options.holes:
            idle.setdefault(index[slot.position], []).append((slot.start, slot.end, causes.index(slot.cause)))
    arrivals = timeline.arrivals
    return {
        "hint": HINT,
        "unit": timeline.ticks_per_unit,
        "from": drawn.picture.begin,
        "to": drawn.picture.end,
        "left": round(drawn.left, 3),
        "perTick": drawn.per_tick,
        "width": round(drawn.width, 2),
        "panels": drawn.panels,
        "first": first,
        "rows": [
            {
                "name": row.label,
                "top": row.top,
                "height": row.height,
                "ticks": [tick for tick, _ in held],
                "counts": [count for _, count in held],
            }
            for row in drawn.rows
            for held in ([] if drawn.options.holes else memory.held(row.rank),)
        ],
        "start": [timeline.starts[box.position] for box in boxes],
        "end": [timeline.ends[box.position] for box in boxes],
        "name": [box.text for box in boxes],
        "half": [0 if box.height == row.height else 2 if box.top else 1 for row in drawn.rows for box in row.boxes],
        "after": [
            [] if box.kind is None else [index[position] for position in after(box.position) if position in index]
            for box in boxes
        ],
        "arrival": {
            index[box.position]: arrivals[box.position]
            for box in boxes
            if arrivals[box.position] != timeline.ends[box.position]
        },
        "causes": [f"{cause} ({meaning})" for cause, meaning in CAUSES.items()],
        "idle": idle,
    }


def _tables(report: Report, names: Names, ranks: list[int]) -> list[Table]:
    found = [tables.phases(report, names, ranks)]
    sizes = tables.sizes(report, names, ranks)
    found += [sizes] if sizes else []
    found.append(tables.idle(report, names, ranks))
    if len(report.lifetimes) <= MANY_LIFETIMES:
        found += tables.lifetimes(report, names, ranks)
    return found


def paragraph(content: str, kind: str = "") -> str:
    """A paragraph of plain text."""
    opening = f'<p class="{kind}">' if kind else "<p>"
    return f"{opening}{text(content)}</p>"


def table_html(table: Table) -> str:
    """A table with its title before it and its notes after it."""
    first, *others = table.header
    header = f"<th>{text(first)}</th>" + "".join(f'<th class="n">{text(cell)}</th>' for cell in others)
    rows = "".join(
        "<tr>"
        + f"<th>{text(row[0])}</th>"
        + "".join(f'<td class="n">{text(cell)}</td>' for cell in row[1:])
        + "</tr>\n"
        for row in table.rows
    )
    notes = "".join(paragraph(note, "less") for note in table.notes)
    return (
        f"<h2>{text(table.title[:1].upper() + table.title[1:])}</h2>\n"
        f'<div class="scroll"><table><thead><tr>{header}</tr></thead><tbody>\n{rows}</tbody></table></div>\n{notes}'
    )


def _values(line: MetricLine) -> str:
    opening = '<td class="short">' if max(map(len, line.values)) <= SHORT_VALUE else "<td>"
    return f"{opening}{'<br>'.join(map(text, line.values))}</td>"


def metrics_html(lines: Iterable[MetricLine]) -> str:
    """Metrics as a table: label, value, closed forms and definition."""
    rows = "".join(
        f"<tr><th>{text(line.label)}</th>{_values(line)}"
        f'<td class="less">{"<br>".join(map(text, line.remarks))}</td></tr>\n'
        for line in lines
    )
    return f'<div class="scroll"><table><tbody>\n{rows}</tbody></table></div>'
