// @ts-check
// Tables that stack where there is too little room for them.

import { h } from './dom.js';

/** Columns that would be narrower than this, on average, are stacked. */
const MIN_COLUMN_PX = 84;
/** Cells with more characters get a column of about as many, or the table is stacked. */
const LONG_TEXT = 20;

/**
 * Stacks a table, one line per cell, whenever it is wider than its place.
 * @param {HTMLElement} place
 * @param {HTMLElement} grid
 * @param {number} columns
 */
function stackWhenNarrow(place, grid, columns) {
  let width = 0;
  const observer = new ResizeObserver(() => {
    if (place.clientWidth === width) return;
    width = place.clientWidth;
    grid.classList.remove('stacked');
    grid.classList.toggle('stacked', width / columns < MIN_COLUMN_PX || grid.offsetWidth > width);
  });
  observer.observe(place);
}

/** @typedef {{ name: string, number?: boolean, hidden?: boolean }} Column */

/**
 * A table. `columns`: names, or `{ name, number: true }` for columns of numbers, or `{ name, hidden: true }` for a heading
 * that only screen readers get. `rows`: lists of cells. Explicit roles keep it a table for assistive technology when it stacks.
 * @param {string} caption
 * @param {Array<string | Column>} columns
 * @param {Content[][]} rows
 * @param {{ empty?: string, className?: string }} [options]
 */
export function table(caption, columns, rows, { empty = 'There is nothing here yet.', className } = {}) {
  if (!rows.length) return h('p', { class: 'empty-note' }, empty);
  /** @type {Column[]} */
  const shapes = columns.map((column) => (typeof column === 'string' ? { name: column } : column));
  /** @param {Column} column */
  const kind = ({ number, hidden }) => (number ? 'number' : hidden && 'unnamed-column');
  /**
   * @param {Content} content
   * @param {number} i
   */
  const cell = (content, i) => {
    const box = h('div', null, content);
    box.classList.toggle('long-text', !shapes[i].hidden && (box.textContent ?? '').length > LONG_TEXT);
    return h('td', { role: 'cell', class: kind(shapes[i]), 'data-label': shapes[i].hidden ? '' : shapes[i].name }, box);
  };
  const grid = h('table', { role: 'table', 'aria-label': caption, class: className },
    h('thead', { role: 'rowgroup' },
      h('tr', { role: 'row' }, shapes.map((shape) =>
        h('th', { role: 'columnheader', scope: 'col', class: kind(shape) },
          shape.hidden ? h('span', { class: 'visually-hidden' }, shape.name) : shape.name)))),
    h('tbody', { role: 'rowgroup' }, rows.map((cells) => h('tr', { role: 'row' }, cells.map(cell)))));
  const place = h('div', { class: 'table-frame' }, grid);
  stackWhenNarrow(place, grid, columns.length);
  return place;
}

/**
 * Names and values, such as the facts about a file. Pairs without a value are left out.
 * @param {Array<[string, Content]>} pairs
 */
export function facts(pairs) {
  const shown = pairs.filter(([, content]) => content !== null && content !== undefined && content !== false && content !== '');
  return h('dl', { class: 'facts' }, shown.map(([name, content]) => h('div', null, h('dt', null, name), h('dd', null, content))));
}
