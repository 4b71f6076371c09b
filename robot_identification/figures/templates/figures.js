// SPDX-License-Identifier: Apache-2.0
// Draws a page's figures (report/figure.py) by plotly.js, each when it comes into view. Figures
// with the same time axis zoom together; buttons switch joints on and off.
'use strict';
(() => {
const root = document.documentElement;
const page = JSON.parse(document.getElementById('figure-data').textContent);
const divs = [...document.querySelectorAll('[data-figure]')];
const ranges = {};  // of the time axes that were zoomed, by name
const CONFIG = {
  displaylogo: false, responsive: true, doubleClick: 'reset',
  toImageButtonOptions: {format: 'svg', filename: document.title},
};
const BUTTONS = [['toImage'], ['zoom2d', 'pan2d'], ['zoomIn2d', 'zoomOut2d', 'resetScale2d']];
const BUTTONS_3D = [['toImage'], ['orbitRotation', 'pan3d', 'resetCameraDefault3d']];

const bytes = (text) => Uint8Array.from(atob(text), (c) => c.charCodeAt(0));

// an array of the page, decoded when it is first asked for; a matrix is an array of its rows
const arrays = [];
function array(number) {
  if (arrays[number]) return arrays[number];
  const {dtype, bdata, columns} = page.arrays[number];
  const all = new (dtype === 'f4' ? Float32Array : Uint32Array)(bytes(bdata).buffer);
  arrays[number] = columns === undefined ? all
    : Array.from({length: all.length / columns}, (_, i) => all.slice(i * columns, (i + 1) * columns));
  return arrays[number];
}

// a figure's part with its arrays, and with colours in place of custom properties
function resolved(value, style) {
  if (typeof value === 'string')
    return value.replace(/var\((--[\w-]+)\)/g, (_, name) => style.getPropertyValue(name).trim());
  if (Array.isArray(value)) return value.map((part) => resolved(part, style));
  if (!value || typeof value !== 'object') return value;
  if ('$' in value) return array(value.$);
  return Object.fromEntries(Object.entries(value).map(([name, part]) => [name, resolved(part, style)]));
}

async function draw(div) {
  const style = getComputedStyle(root), time = div.dataset.time, fresh = !div.data;
  const {data, layout} = resolved(page.figures[div.dataset.figure], style);
  const look = {...resolved(page.layout, style), ...layout};
  // fingers scroll the page; the buttons zoom
  if (matchMedia('(pointer: coarse)').matches) look.dragmode = layout.scene ? 'orbit' : false;
  // the buttons get a line of their own where headline or legend leave them no room
  if (!layout.scene && div.clientWidth < 500) look.margin = {...look.margin, t: look.margin.t + 22};
  const drawn = Plotly.react(div, data, look,
    {...CONFIG, modeBarButtons: layout.scene ? BUTTONS_3D : BUTTONS});
  if (fresh && time) div.on('plotly_relayout', (change) => {
    if (Object.keys(change).some((name) => name.startsWith('xaxis'))) zoom(div);
  });
  await drawn;
  if (time && ranges[time]) await zoomTo(div, ranges[time]);
}

const zoomTo = (div, range) => Plotly.relayout(div, {'xaxis.range': [...range]});

function zoom(div) {
  const time = div.dataset.time, range = div.layout.xaxis.range;
  if (String(ranges[time]) === String(range)) return;
  ranges[time] = [...range];
  for (const other of divs)
    if (other !== div && other.dataset.time === time && other.data && !other.hidden)
      zoomTo(other, range);
}

function joints() {
  const names = [...new Set(divs.map((div) => div.dataset.joint).filter(Boolean))];
  const hidden = new Set();
  const bars = names.length > 1 ? [...document.querySelectorAll('.joints')] : [];
  function show() {
    for (const bar of bars)
      for (const button of bar.querySelectorAll('button'))
        button.setAttribute('aria-pressed', button.value ? !hidden.has(button.value) : !hidden.size);
    for (const div of divs) {
      const before = div.hidden;
      div.hidden = hidden.has(div.dataset.joint);
      if (before && !div.hidden && div.data) draw(div);
    }
  }
  function toggle(name, alone) {
    if (!name) hidden.clear();
    else if (alone) names.forEach((each) => each === name ? hidden.delete(each) : hidden.add(each));
    else if (!hidden.delete(name)) hidden.add(name);
    show();
  }
  for (const bar of bars)
    for (const name of ['', ...names]) {
      const button = document.createElement('button');
      button.type = 'button';
      button.value = name;
      button.textContent = name || 'all';
      button.title = name ? 'on or off; with Shift: this joint alone' : 'all joints';
      button.addEventListener('click', (event) => toggle(name, event.shiftKey));
      bar.append(button);
    }
  show();
}

async function load() {
  const packed = bytes(document.getElementById('plotly-library').textContent);
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream('deflate'));
  const script = document.createElement('script');
  script.textContent = await new Response(stream).text();
  document.head.append(script);
}

function start() {
  const seen = new IntersectionObserver((entries) => {
    for (const {isIntersecting, target} of entries)
      if (isIntersecting && !target.data) draw(target);
  }, {rootMargin: '300px'});
  divs.forEach((div) => seen.observe(div));
  const redraw = () => divs.filter((div) => div.data && !div.hidden).forEach(draw);
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', redraw);
  let closed = [];
  addEventListener('beforeprint', () => {
    closed = [...document.querySelectorAll('details:not([open])')];
    closed.forEach((part) => { part.open = true; });
    root.classList.add('printing');
    divs.filter((div) => !div.hidden).forEach(draw);
  });
  addEventListener('afterprint', () => {
    closed.forEach((part) => { part.open = false; });
    root.classList.remove('printing');
    redraw();
  });
  root.dataset.figures = 'ready';
}

joints();
load().then(start, () => {
  for (const div of divs) div.textContent = 'This browser is too old to draw the figures.';
});
})();
