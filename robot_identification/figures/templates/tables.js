// SPDX-License-Identifier: Apache-2.0
// Tables with a head sort by a click on a heading, and copy as CSV.
'use strict';
(() => {
const lines = (cell) => cell.innerText.split('\n').map((line) => line.trim());

// a number for what a cell shows; text where it shows none. Of several lines the second counts:
// before, after, std
function key(cell) {
  const all = lines(cell), text = (all.length > 1 ? all[1] : all[0]).replace(/−/g, '-');
  const found = text.match(/^[<>±+\s]*(-?(?:[\d.]+(?:e-?\d+)?|∞))/);
  if (!found) return text === '–' || text === '' ? null : text;
  return found[1].endsWith('∞') ? Number(found[1].replace('∞', 'Infinity')) : Number(found[1]);
}

function compared(a, b) {
  if (a === null || b === null) return (a === null) - (b === null);
  if (typeof a === 'number' && typeof b === 'number') return a - b;
  return String(a).localeCompare(String(b), undefined, {numeric: true});
}

function sort(table, column) {
  const heading = table.tHead.rows[0].cells[column], body = table.tBodies[0];
  const down = heading.getAttribute('aria-sort') === 'ascending';
  for (const other of table.tHead.rows[0].cells) other.removeAttribute('aria-sort');
  heading.setAttribute('aria-sort', down ? 'descending' : 'ascending');
  const rows = [...body.rows].map((row) => [key(row.cells[column]), row]);
  // what has no value stays at the end
  rows.sort(([a], [b]) => compared(a, b) * (down && a !== null && b !== null ? -1 : 1));
  body.append(...rows.map(([, row]) => row));
}

// rows of several lines become several rows; spreadsheets compute no text
function csv(table) {
  const plain = (text) => /^([=@]|[+-](?![\d.\s]|$)|[+-].*[|(!])/.test(text) ? `'${text}` : text;
  const quoted = (text) => /[",\n]/.test(text) ? `"${text.replace(/"/g, '""')}"` : text;
  const rows = [...table.rows].flatMap((row) => {
    const cells = [...row.cells].flatMap((cell) => [lines(cell), ...Array(cell.colSpan - 1).fill([''])]);
    const height = Math.max(...cells.map((cell) => cell.length));
    return Array.from({length: height}, (_, i) => cells.map((cell) =>
      quoted(plain((cell.length > 1 ? cell[i] ?? '' : cell[0]).replace(/−/g, '-').replace(/^(–|± )/, '')))));
  });
  return rows.map((row) => row.join(',')).join('\n') + '\n';
}

async function copy(text) {
  try { await navigator.clipboard.writeText(text); } catch (_) {
    const area = document.createElement('textarea');
    area.value = text;
    document.body.append(area);
    area.select();
    document.execCommand('copy');
    area.remove();
  }
}

for (const table of document.querySelectorAll('table')) {
  if (!table.tHead) continue;
  [...table.tHead.rows[0].cells].forEach((heading, column) => {
    if (!heading.textContent.trim()) return;
    const button = document.createElement('button');
    button.type = 'button';
    button.append(...heading.childNodes);
    button.addEventListener('click', () => sort(table, column));
    heading.append(button);
  });
  const button = document.createElement('button');
  button.type = 'button';
  button.className = 'copy';
  button.textContent = 'Copy as CSV';
  button.addEventListener('click', async () => {
    await copy(csv(table));
    button.textContent = 'Copied';
    setTimeout(() => { button.textContent = 'Copy as CSV'; }, 1500);
  });
  (table.closest('.scroll') || table).after(button);
}
})();
