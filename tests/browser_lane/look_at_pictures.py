"""Figures and pages laid out by a real browser, measured at 800 and 1600 pixels: no text over another, none outside its figure,
nothing clipped, no page wider than its window, no name too small to be read.

A script, not collected by pytest; it needs what drive_page.py needs.
"""

from __future__ import annotations

import html
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from drive_page import FLAGS, check, chromium

from pptrace import simulate
from pptrace.lesson.build import PageOptions, handout
from pptrace.lesson.html_page import html_page as lesson_page
from pptrace.render.figure_parts import FigureOptions
from pptrace.render.html import html_page
from pptrace.render.svg import svg_figure
from pptrace.schedules.registry import entry, names

if TYPE_CHECKING:
    from pptrace.analysis.report import Report

EVERYTHING = FigureOptions(lifetimes=True, curve=True, arrows=True, caption=True)
WIDTHS = (800, 1600)
OTHERS: dict[str, dict[str, object]] = {
    "latency": {"name": "1f1b", "num_ranks": 4, "num_microbatches": 8, "comm": 1},
    "serial links": {"name": "1f1b", "num_ranks": 4, "num_microbatches": 8, "comm": "1/2", "link": "serial"},
    "two steps": {"name": "1f1b", "num_ranks": 4, "num_microbatches": 4, "num_steps": 2, "step_time": 1},
    "recomputation": {"name": "1f1b", "num_ranks": 4, "num_microbatches": 8, "recompute": "full"},
    "M < P": {"name": "1f1b", "num_ranks": 4, "num_microbatches": 2},
    "one microbatch": {"name": "1f1b", "num_ranks": 4, "num_microbatches": 1},
    "one rank": {"name": "1f1b", "num_ranks": 1, "num_microbatches": 1},
    "64 ranks": {"name": "1f1b", "num_ranks": 64, "num_microbatches": 16},
    "long": {"name": "1f1b", "num_ranks": 2, "num_microbatches": 120},
    "unequal": {
        "name": "1f1b",
        "num_ranks": 3,
        "num_microbatches": 5,
        "forward": [1, 10, "1/7"],
        "backward": ["2/3", 1, 5],
    },
}
LEAST_NAME = 6.2
"""Pixels of the smallest name of an op that is drawn (in a figure that was asked to be narrow)."""

MEASURE = """
<script>
function measured(frame) {
  const page = frame.contentDocument, root = page.documentElement, found = [];
  if (root.scrollWidth > root.clientWidth + 1) { found.push('wider than its window'); }
  for (const element of page.querySelectorAll('td, th, p, li, h1, h2, figcaption, summary, .tools, .formula')) {
    const clips = getComputedStyle(element).overflowX !== 'auto' && element.clientWidth;
    if (clips && element.scrollWidth > element.clientWidth + 1) { found.push('clipped: ' + element.textContent.slice(0, 60)); }
  }
  for (const svg of page.querySelectorAll('svg.pptrace')) {
    const edge = svg.getBoundingClientRect(), scale = edge.width / svg.viewBox.baseVal.width;
    const texts = [...svg.querySelectorAll('text')].map((text) => [text.textContent, text.getBoundingClientRect()]);
    const seen = texts.filter(([text, box]) => text && box.width).sort((a, b) => a[1].left - b[1].left);
    seen.forEach(([text, box], i) => {
      if (box.left < edge.left - 0.5 || box.right > edge.right + 0.5 || box.top < edge.top - 0.5 ||
          box.bottom > edge.bottom + 0.5) { found.push('outside: ' + text); }
      for (let j = i + 1; j < seen.length && seen[j][1].left < box.right - 0.3; j += 1) {
        const other = seen[j][1], gap = 1.2 * scale;
        if (box.top + gap < other.bottom - gap && other.top + gap < box.bottom - gap) {
          found.push('over one another: ' + text + ' and ' + seen[j][0]);
        }
      }
    });
    const sizes = [...svg.querySelectorAll('.row > g.mid text')].map((t) => parseFloat(getComputedStyle(t).fontSize) * scale);
    if (Math.min(...sizes) < LEAST) { found.push('too small: ' + Math.min(...sizes)); }
  }
  return found.map((fault) => frame.name + ': ' + fault);
}
window.addEventListener('load', () => setTimeout(() => {
  const frames = [...document.querySelectorAll('iframe')];
  const result = document.createElement('pre');
  result.id = 'said';
  result.textContent = frames.length + ' measured\\n' + frames.flatMap(measured).join('\\n');
  frames.forEach((frame) => frame.remove());
  document.body.append(result);
}, 500));
</script>"""


def faults(pages: dict[str, str], widths: tuple[int, ...]) -> list[str]:
    """What a browser finds in pages, each in a window of each width."""
    frames = "".join(
        f'<iframe name="{name} at {width}" style="width:{width}px;height:900px" srcdoc="{html.escape(page)}"></iframe>'
        for name, page in pages.items()
        for width in widths
    )
    script = MEASURE.replace("LEAST", str(LEAST_NAME))
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as place:
        file = Path(place, "pages.html")
        file.write_text(f'<!DOCTYPE html><meta charset="utf-8"><body>{frames}{script}</body>', encoding="utf-8")
        command = [chromium(), *FLAGS, f"--user-data-dir={place}/profile", file.as_uri()]
        done = subprocess.run(command, capture_output=True, encoding="utf-8", timeout=300, check=False)
    found = re.search(r'<pre id="said">(\d+) measured\n(.*?)</pre>', done.stdout, re.DOTALL)
    if not found:
        sys.exit(f"nothing was measured; the browser ended with {done.returncode}: {done.stderr[-2000:]}")
    check("every page was measured", int(found[1]), len(pages) * len(widths))
    return html.unescape(found[2]).splitlines()


def reports() -> dict[str, Report]:
    """Every schedule at P=4 M=8, and unusual ones."""
    chunks = {name: {"num_chunks": 2} if "chunks" in entry(name).options else {} for name in names()}
    found = {name: simulate(name, num_ranks=4, num_microbatches=8, **chunks[name]) for name in names()}
    for case, options in OTHERS.items():
        given = dict(options)
        found[case] = simulate(str(given.pop("name")), **given)  # type: ignore[arg-type]
    return found


def alone(svg: str) -> str:
    return f'<!DOCTYPE html><style>html{{overflow-y:hidden}}</style><body style="margin:0">{svg}</body>'


def main() -> None:
    spoilt = '<svg class="pptrace" viewBox="0 0 90 40" width="90"><text y="30">one</text><text y="31">two</text></svg>'
    check(
        "a fault is found", faults({"spoilt": alone(spoilt)}, (800,)), ["spoilt at 800: over one another: one and two"]
    )
    made = reports()
    at_rest = {name: alone(svg_figure(report, EVERYTHING)) for name, report in made.items()}
    check("figures as wide as their names need", faults(at_rest, (8000,)), [])
    for width in WIDTHS:
        narrow = {name: alone(svg_figure(report, EVERYTHING._replace(width=width))) for name, report in made.items()}
        check(f"figures of {width} pixels", faults(narrow, (width,)), [])
    for theme in ("light", "dark"):
        pages = {name: html_page(report, FigureOptions(theme=theme, curve=True)) for name, report in made.items()}
        check(f"pages, {theme}", faults(pages, WIDTHS), [])
    lessons = {name: lesson_page(handout(report).page) for name, report in made.items()}
    check("lessons", faults(lessons, WIDTHS), [])
    exercise = PageOptions(exercise=True, lab=True, names="textbook")
    check("exercises", faults({n: lesson_page(handout(r, exercise).page) for n, r in made.items()}, WIDTHS), [])


if __name__ == "__main__":
    main()
    print("every picture can be read")
