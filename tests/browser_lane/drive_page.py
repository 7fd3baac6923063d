"""The HTML page in a real browser: pointing at an op tells what it waited for and who waits for it, the cursor tells what
every rank runs and holds, zoom changes the size, nothing is fetched and no label becomes markup.

A script, not collected by pytest, for an environment with pptrace and a Chromium (on PATH, or named by CHROMIUM):

    apt-get install -y --no-install-recommends chromium
    python tests/browser_lane/drive_page.py

It fails, and never skips, where there is no Chromium.
"""

from __future__ import annotations

import html
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from pptrace import simulate
from pptrace.analysis.report import Report
from pptrace.render.figure_parts import FigureOptions
from pptrace.render.html import html_page

FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    *("--window-size=1200,900", "--virtual-time-budget=20000", "--dump-dom"),
)

PROBE = """
<script>
window.addEventListener('load', async () => {
  const data = JSON.parse(document.getElementById('pp-data').textContent);
  const svg = document.querySelector('svg');
  // A browser without a screen draws no frames.
  window.requestAnimationFrame = (draw) => setTimeout(draw, 0);
  const frame = () => new Promise((done) => setTimeout(done, 5));
  const said = {};
  async function send(kind, row, time, down = 0.5) {
    const box = svg.getBoundingClientRect(), scale = box.width / data.width;
    const x = data.left + (time * data.unit - data.from) * data.perTick;
    const y = data.rows[row].top + data.rows[row].height * down;
    const place = { clientX: box.left + x * scale, clientY: box.top + y * scale, bubbles: true };
    svg.dispatchEvent(new PointerEvent(kind, place));
    await frame();
    return document.querySelector('.told').textContent;
  }
  const chips = () => [...document.querySelectorAll('.now li')].map((chip) => [...chip.children].map((c) => c.textContent));
  const width = () => Math.round(svg.getBoundingClientRect().width);
  const press = (name) => document.querySelector('[data-zoom=' + name + ']').click();
  const outlines = () => [...document.querySelectorAll('.picked,.awaited,.waiting')].map((e) =>
    e.tagName + ' ' + e.getAttribute('class')).sort();
  try {
    STEPS
    said.requests = performance.getEntriesByType('resource').map((entry) => entry.name);
  } catch (error) { said.error = String(error); }
  const result = document.createElement('pre');
  result.id = 'said';
  result.textContent = JSON.stringify(said);
  document.body.append(result);
});
</script>
</body>"""


def chromium() -> str:
    found = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
    if not found:
        sys.exit("no Chromium: apt-get install -y --no-install-recommends chromium, or say CHROMIUM=PATH")
    return found


def drive(page: str, steps: str) -> dict[str, Any]:
    """What the page says while `steps`, JavaScript that fills `said`, drive it."""
    probe = PROBE.replace("STEPS", steps)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as place:
        file = Path(place, "page.html")
        file.write_text(page.replace("</body>", probe), encoding="utf-8")
        command = [chromium(), *FLAGS, f"--user-data-dir={place}/profile", file.as_uri()]
        done = subprocess.run(command, capture_output=True, encoding="utf-8", timeout=180, check=False)
    found = re.search(r'<pre id="said">(.*?)</pre>', done.stdout, re.DOTALL)
    if not found:
        sys.exit(f"the page said nothing; the browser ended with {done.returncode}: {done.stderr[-2000:]}")
    said: dict[str, Any] = json.loads(html.unescape(found[1]))
    if "error" in said:
        sys.exit(f"the page's script failed: {said['error']}")
    check("nothing is fetched", said["requests"], [])
    return said


def check(fact: str, found: object, expected: object) -> None:
    if found != expected:
        sys.exit(f"NOT SO: {fact}\n  expected {expected!r}\n  found    {found!r}")
    print(f"ok: {fact}")


def hover_and_cursor() -> None:
    said = drive(
        html_page(simulate("1f1b", num_ranks=4, num_microbatches=4)),
        """
        said.before = document.querySelector('.told').textContent;
        said.f1 = await send('pointermove', 1, 2.5);
        said.outlines = outlines();
        said.at2 = chips();
        said.b0 = await send('pointermove', 0, 7.5);
        said.idle = await send('pointermove', 0, 5.5);
        await send('pointermove', 0, 3.5);
        said.at3 = chips();
        said.clock = document.querySelector('output').textContent;
        const slider = document.querySelector('input');
        slider.value = 13;
        slider.dispatchEvent(new Event('input'));
        said.at13 = chips();
        said.kept = await send('click', 3, 4.5);
        said.still = await send('pointermove', 0, 0.5);
        document.dispatchEvent(new KeyboardEvent('keydown', { key: 'Escape' }));
        said.gone = document.querySelector('.told').textContent;
        press('full'); said.full = width();
        press('in'); said.larger = width();
        press('out'); press('out'); said.smaller = width();
        press('fit'); said.fit = width() === document.querySelector('.scroll').clientWidth;
        said.natural = Math.round(data.width);
        """,
    )
    hint = "Point at an op to see what it waited for and who waits for it; click to keep it, Escape to let it go."
    check("before anything is pointed at, a hint", said["before"], hint)
    check(
        "F1 on stage 1 waits for F1 on stage 0; F1 on stage 2 and its own B1 wait for it",
        said["f1"],
        "F1 on stage 1: t=2 to 3. It waited for F1 on stage 0 (done at 2). "
        "It is awaited by B1 on stage 1 (starts at 8) and F1 on stage 2 (starts at 3).",
    )
    check(
        "the op is outlined, what it waits for and who waits for it, lines to those on other ranks",
        said["outlines"],
        ["path awaited", "path waiting", "rect awaited", "rect picked", "rect waiting", "rect waiting"],
    )
    check(
        "B0 on stage 0 says why its rank was idle",
        said["b0"],
        "B0 on stage 0: t=7 to 8. It waited for B0 on stage 1 (done at 7) and F0 on stage 0 (done at 1). Idle before it "
        "from 4 to 7: wait-backward (the backward of the stage after is not done). No op waits for it.",
    )
    check("idle time is no op", said["idle"], hint)
    check(
        "the cursor at t=2",
        said["at2"],
        [
            ["stage 0", "F2", "3 held"],
            ["stage 1", "F1", "2 held"],
            ["stage 2", "F0", "1 held"],
            ["stage 3", "\u2013", "0 held"],
        ],
    )
    check("the clock at t=3", said["clock"], "t = 3")
    check(
        "the cursor at t=3: peaks 4 3 2 1",
        [(runs, holds) for _, runs, holds in said["at3"]],
        [("F3", "4 held"), ("F2", "3 held"), ("F1", "2 held"), ("F0", "1 held")],
    )
    check(
        "the slider at t=13: only B3 on stage 0 is left",
        [(runs, holds) for _, runs, holds in said["at13"]],
        [("B3", "1 held"), ("\u2013", "0 held"), ("\u2013", "0 held"), ("\u2013", "0 held")],
    )
    check("a click keeps an op", said["kept"][:16], "B0 on stage 3: t")
    check("while others are pointed at", said["still"], said["kept"])
    check("Escape lets it go", said["gone"], hint)
    check("100 % is the natural size", said["full"], said["natural"])
    check("zoom in, by a quarter", said["larger"], round(said["natural"] * 1.25))
    check("zoom out, by a quarter less", said["smaller"], round(said["natural"] / 1.25))
    check("fit fills the frame", said["fit"], True)


def pairs_and_messages() -> None:
    said = drive(
        html_page(simulate("dualpipev", num_ranks=4, num_microbatches=10)),
        "said.upper = await send('pointermove', 0, 9, 0.25); said.at9 = chips()[0];"
        "said.lower = await send('pointermove', 0, 9, 0.75);",
    )
    check("the upper half of a pair is its first op", said["upper"][:31], "0F7 on rank 0: t=8.5 to 10. It ")
    check("the lower half is its second", said["lower"][:31], "7B3 on rank 0: t=8.5 to 10. It ")
    check("the cursor names both", said["at9"][:2], ["rank 0", "0F7+7B3"])
    said = drive(
        html_page(simulate("1f1b", num_ranks=2, num_microbatches=1, comm="1/2")),
        "said.told = await send('pointermove', 1, 2);",
    )
    check(
        "a message arrives after its op is done",
        said["told"],
        "F0 on stage 1: t=1.5 to 2.5. It waited for F0 on stage 0 (arrives at 1.5). Idle before it from 0 to 1.5: "
        "fill (before the rank's first op). It is awaited by B0 on stage 1 (starts at 2.5).",
    )


def hostile_labels() -> None:
    timed = simulate("1f1b", num_ranks=2, num_microbatches=2)
    timed.schedule.name = "</script><script>window.broken=1</script><img src=x onerror=window.broken=1>\"'"
    report = Report(timed.timeline, notes=("<b onmouseover=window.broken=1>&lt;]]>--></svg>",))
    page = html_page(report, FigureOptions(caption=True, lifetimes=True, curve=True, arrows=True))
    said = drive(
        page,
        "said.broken = window.broken === undefined; said.images = document.images.length;"
        "said.title = document.querySelector('h1').textContent.startsWith('<' + '/script><script>');",
    )
    check("labels run nothing", said["broken"], True)
    check("labels make no element", said["images"], 0)
    check("labels are shown as they are", said["title"], True)


def many_ops() -> None:
    said = drive(
        html_page(simulate("1f1b", num_ranks=64, num_microbatches=512)),
        """
        said.first = await send('pointermove', 63, 63.5);
        said.after = await send('pointermove', 0, 1.5);
        """,
    )
    check("65,536 ops: F0 on the last stage", said["first"][:32], "F0 on stage 63: t=63 to 64. It w")
    check("65,536 ops: F1 on the first", said["after"][:26], "F1 on stage 0: t=1 to 2. I")


if __name__ == "__main__":
    hover_and_cursor()
    pairs_and_messages()
    hostile_labels()
    many_ops()
    print("the page works in a browser")
