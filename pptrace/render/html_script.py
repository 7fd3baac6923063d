"""The script and the style sheet of the HTML page. The page can be read without the script; with it an op shows what it
waited for and who waits for it, a cursor shows what every rank runs and holds at a moment, and the figure can be zoomed.

The script reads its data from the page, makes no request, and writes labels as text only, never as markup. One listener
on the figure serves all ops: which op is under the pointer follows from the layout, so that size costs nothing.
"""

from __future__ import annotations

PAGE_STYLE = """
:root{color-scheme:SCHEME}
body{margin:0;font:15px/1.5 FONTS}
main{max-width:1600px;margin:0 auto;padding:20px 24px 40px;box-sizing:border-box}
h1{font-size:24px;line-height:1.25;margin:0 0 4px}
h2{font-size:17px;margin:28px 0 8px}
p{margin:0 0 8px}
figure{margin:18px 0 0}
.scroll{overflow-x:auto;max-width:100%}
.scroll>svg{display:block;height:auto}
figcaption{margin-top:10px;max-width:75em;font-size:13.5px}
figcaption p{margin:0 0 4px}
table{border-collapse:collapse;font-size:14px;font-variant-numeric:tabular-nums}
th,td{padding:3px 14px 3px 0;text-align:left;vertical-align:top;font-weight:normal}
thead th{font-weight:600}
td.n,th.n{text-align:right}
.tools{display:flex;flex-wrap:wrap;gap:8px;align-items:center;margin:0 0 10px;font-size:14px}
.tools[hidden],.now[hidden],.told[hidden]{display:none}
.tools button{font:inherit;min-width:34px;padding:2px 9px;border-radius:6px;cursor:pointer}
.tools label{display:flex;gap:8px;align-items:center;flex:1 1 260px}
.tools input{flex:1 1 auto;min-width:120px}
.tools output{min-width:7em;font-variant-numeric:tabular-nums}
.now{display:grid;grid-template-columns:repeat(auto-fill,minmax(190px,1fr));gap:4px 10px;list-style:none;margin:0 0 10px;
padding:0;font-size:13.5px;font-variant-numeric:tabular-nums;max-height:9.5em;overflow-y:auto}
.now li{display:flex;gap:8px;padding:2px 8px;border-radius:6px;white-space:nowrap;overflow:hidden}
.now b{font-weight:600;flex:0 0 auto}
.now span{flex:1 1 auto}
.now span:last-child{text-align:right}
td.short{white-space:nowrap}
.told{min-height:3em;margin:8px 0 0;font-size:14px}
.pptrace .cursor{fill:none;stroke-width:1.5;pointer-events:none}
.pptrace .picked,.pptrace .awaited,.pptrace .waiting{fill:none;pointer-events:none}
.pptrace .picked{stroke-width:3}
.pptrace .awaited{stroke-width:2}
.pptrace .waiting{stroke-width:2;stroke-dasharray:4 3}
.scroll>svg{touch-action:pan-x pan-y}
@media print{.tools,.now,.told{display:none}main{padding:0}
.scroll>svg{min-width:0!important;width:100%!important}}
"""

PAGE_COLORS = (
    "body{background:PAPER;color:INK}figcaption,.less{color:FAINT}tbody tr{border-top:1px solid LINE}"
    ".now li{background:CHIP}.tools button{background:CHIP;color:INK;border:1px solid LINE}"
    ".pptrace .cursor,.pptrace .picked,.pptrace .awaited,.pptrace .waiting{stroke:INK}"
)

SCRIPT = r"""
'use strict';
function enliven(prefix) {
  const figure = document.getElementById(prefix + '-figure');
  const data = JSON.parse(document.getElementById(prefix + '-data').textContent);
  const svg = figure.querySelector('svg');
  const scroll = figure.querySelector('.scroll');
  const tools = figure.querySelector('.tools');
  const now = figure.querySelector('.now');
  const told = figure.querySelector('.told');
  const slider = tools.querySelector('input');
  const clock = tools.querySelector('output');
  const namespace = 'http://www.w3.org/2000/svg';
  const layer = document.createElementNS(namespace, 'g');
  const line = document.createElementNS(namespace, 'path');
  line.setAttribute('class', 'cursor');
  svg.append(layer, line);

  // The last index whose value is at most `wanted`, or first - 1.
  function last(values, wanted, first, end) {
    while (first < end) {
      const middle = (first + end) >> 1;
      if (values[middle] <= wanted) { first = middle + 1; } else { end = middle; }
    }
    return first - 1;
  }

  function gcd(a, b) { return b ? gcd(b, a % b) : a; }

  // A time in units, exactly, as the tables write it.
  function time(tick) {
    const divisor = gcd(Math.abs(tick), data.unit) || 1;
    const top = tick / divisor, bottom = data.unit / divisor;
    if (bottom === 1) { return String(top); }
    let rest = bottom, places = 0;
    while (rest % 10 === 0) { rest /= 10; places += 1; }
    while (rest % 2 === 0) { rest /= 2; places += 1; }
    while (rest % 5 === 0) { rest /= 5; places += 1; }
    return rest === 1 && places < 7 && Math.abs(top) < 1e9 ? String(top / bottom) : top + '/' + bottom;
  }

  function rowOf(box) { return last(data.first, box, 0, data.rows.length); }

  function boxAt(row, tick, y) {
    const from = data.first[row], to = data.first[row + 1];
    let box = last(data.start, tick, from, to);
    if (box < from || tick >= data.end[box]) { return -1; }
    const sibling = data.half[box] === 2 ? box - 1 : box;
    if (data.half[box] === 0) { return box; }
    return y < data.rows[row].height / 2 ? sibling : sibling + 1;
  }

  const consumers = [];
  function consumersOf(box) {
    if (!consumers.length) {
      for (let i = 0; i < data.name.length; i += 1) { consumers.push([]); }
      data.after.forEach((producers, i) => producers.forEach((producer) => consumers[producer].push(i)));
    }
    return consumers[box];
  }

  function x(tick) { return data.left + (Math.min(Math.max(tick, data.from), data.to) - data.from) * data.perTick; }

  function outline(box, kind) {
    const row = data.rows[rowOf(box)], half = data.half[box];
    const height = half ? row.height / 2 : row.height;
    const shape = document.createElementNS(namespace, 'rect');
    shape.setAttribute('class', kind);
    shape.setAttribute('x', x(data.start[box]));
    shape.setAttribute('y', row.top + (half === 2 ? height : 0));
    shape.setAttribute('width', Math.max(x(data.end[box]) - x(data.start[box]), 1));
    shape.setAttribute('height', height);
    layer.append(shape);
  }

  function join(producer, consumer, kind) {
    const upper = data.rows[rowOf(producer)], lower = data.rows[rowOf(consumer)];
    if (upper === lower) { return; }
    const path = document.createElementNS(namespace, 'path');
    path.setAttribute('class', kind);
    path.setAttribute('d', 'M' + x(data.end[producer]) + ' ' + (upper.top + upper.height / 2) +
      'L' + x(data.start[consumer]) + ' ' + (lower.top + lower.height / 2));
    layer.append(path);
  }

  function said(box, also) {
    return data.name[box] + ' on ' + data.rows[rowOf(box)].name + ' (' + also + ')';
  }

  let picked = -1, pinned = false;
  function pick(box) {
    if (box === picked) { return; }
    picked = box;
    layer.replaceChildren();
    if (box < 0) { told.textContent = data.hint; return; }
    outline(box, 'picked');
    const sentences = [data.name[box] + ' on ' + data.rows[rowOf(box)].name + ': t=' + time(data.start[box]) +
      ' to ' + time(data.end[box]) + '.'];
    const producers = data.after[box].map((producer) => {
      outline(producer, 'awaited');
      join(producer, box, 'awaited');
      const arrival = data.arrival[producer];
      return said(producer, arrival === undefined || rowOf(producer) === rowOf(box) ?
        'done at ' + time(data.end[producer]) : 'arrives at ' + time(arrival));
    });
    sentences.push(producers.length ? 'It waited for ' + producers.join(' and ') + '.' : 'It waited for no other op.');
    (data.idle[box] || []).forEach((slot) => sentences.push('Idle before it from ' + time(slot[0]) + ' to ' +
      time(slot[1]) + ': ' + data.causes[slot[2]] + '.'));
    const waiting = consumersOf(box).map((consumer) => {
      outline(consumer, 'waiting');
      join(box, consumer, 'waiting');
      return said(consumer, 'starts at ' + time(data.start[consumer]));
    });
    sentences.push(waiting.length ? 'It is awaited by ' + waiting.join(' and ') + '.' : 'No op waits for it.');
    told.textContent = sentences.join(' ');
  }

  const chips = data.rows.map((row) => {
    const chip = document.createElement('li'), name = document.createElement('b');
    const runs = document.createElement('span'), holds = document.createElement('span');
    name.textContent = row.name;
    chip.append(name, runs, holds);
    now.append(chip);
    return { runs, holds };
  });

  let moment = data.from;
  function moveTo(tick) {
    moment = Math.min(Math.max(tick, data.from), data.to);
    const at = x(moment);
    line.setAttribute('d', data.panels.map((panel) => 'M' + at + ' ' + panel[0] + 'V' + panel[1]).join(''));
    slider.value = moment;
    clock.textContent = 't = ' + time(moment);
    data.rows.forEach((row, index) => {
      const box = last(data.start, moment, data.first[index], data.first[index + 1]);
      let runs = box >= data.first[index] && moment < data.end[box] ? data.name[box] : '\u2013';
      if (runs === data.name[box] && data.half[box] === 2) { runs = data.name[box - 1] + '+' + runs; }
      const held = last(row.ticks, moment, 0, row.ticks.length);
      const count = held < 0 ? 0 : row.counts[held];
      chips[index].runs.textContent = runs;
      chips[index].holds.textContent = row.ticks.length ? count + ' held' : '';
    });
  }

  function under(event) {
    const matrix = svg.getScreenCTM().inverse();
    return { x: event.clientX * matrix.a + matrix.e, y: event.clientY * matrix.d + matrix.f };
  }

  function point(event) {
    const place = under(event);
    const tick = Math.floor(data.from + (place.x - data.left) / data.perTick + 1e-6);
    if (!pinned) {
      const row = data.rows.findIndex((each) => place.y >= each.top && place.y < each.top + each.height);
      pick(row < 0 || place.x < data.left || tick >= data.to ? -1 : boxAt(row, tick, place.y - data.rows[row].top));
    }
    if (place.x >= data.left - 8 && tick <= data.to) { moveTo(tick); }
  }

  let asked = null;
  svg.addEventListener('pointermove', (event) => {
    if (asked === null) { requestAnimationFrame(() => { const latest = asked; asked = null; point(latest); }); }
    asked = event;
  });
  svg.addEventListener('click', (event) => {
    pinned = false;
    point(event);
    pinned = picked >= 0;
  });
  svg.addEventListener('pointerleave', () => { if (!pinned) { pick(-1); } });
  document.addEventListener('keydown', (event) => {
    if (event.key === 'Escape') { pinned = false; pick(-1); }
  });
  slider.addEventListener('input', () => moveTo(Number(slider.value)));

  // Zoom keeps the middle of what is seen, or the point under the pointer.
  let zoom = 0;
  function zoomTo(factor, clientX) {
    const shown = svg.getBoundingClientRect(), frame = scroll.getBoundingClientRect();
    const anchor = clientX === undefined ? frame.left + frame.width / 2 : clientX;
    const share = (anchor - shown.left) / shown.width;
    zoom = Math.min(Math.max(factor, 0.05), 40);
    svg.style.minWidth = '0';
    svg.style.maxWidth = 'none';
    svg.style.width = zoom * data.width + 'px';
    scroll.scrollLeft = share * zoom * data.width - (anchor - frame.left);
  }
  function current() { return zoom || svg.getBoundingClientRect().width / data.width; }
  tools.addEventListener('click', (event) => {
    const wanted = event.target.dataset && event.target.dataset.zoom;
    if (wanted === 'in') { zoomTo(current() * 1.25); }
    if (wanted === 'out') { zoomTo(current() / 1.25); }
    if (wanted === 'fit') { zoomTo(scroll.clientWidth / data.width); }
    if (wanted === 'full') { zoomTo(1); }
  });
  scroll.addEventListener('wheel', (event) => {
    if (event.ctrlKey) { event.preventDefault(); zoomTo(current() * Math.exp(-event.deltaY / 300), event.clientX); }
  }, { passive: false });

  slider.min = data.from;
  slider.max = data.to;
  told.textContent = data.hint;
  for (const part of [tools, now, told]) { part.hidden = false; }
  moveTo(data.from);
}
"""
"""Defines `enliven(prefix)`, which is called for each figure of a page."""
