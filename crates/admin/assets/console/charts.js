// @ts-check
// Charts as SVG. What belongs to what is told by patterns and words, not by colour alone, and every chart has its table.

import { h, newId, s } from './dom.js';
import { capital, counted, day, number, short, shortDay } from './format.js';
import { table } from './table.js';

const HEIGHT = 200;
const LEFT = 44;
const BOTTOM = 24;
const TOP = 8;

/** @typedef {{ day: string, hits: number, misses: number, refused: number }} Day */

/** What lookups are split into, in the order in which bars are stacked, with the pattern of each. */
const SERIES = /** @type {const} */ ([['hits', 'found'], ['misses', 'nothing found'], ['refused', 'refused']]);

/**
 * The patterns of one chart: solid, stripes, dots. `id` keeps them apart from those of other charts.
 * @param {string} id
 */
function patterns(id) {
  /**
   * @param {string} name
   * @param {number} size
   * @param {...Content} marks
   */
  const pattern = (name, size, ...marks) => s('pattern',
    { id: `${id}-${name}`, width: size, height: size, patternUnits: 'userSpaceOnUse', class: `fill-${name}` },
    s('rect', { width: size, height: size, class: 'pattern-ground' }), marks);
  return s('defs', null,
    pattern('hits', 4),
    pattern('misses', 6, s('path', { d: 'M-1 1l2-2M0 6l6-6M5 7l2-2', class: 'pattern-mark' })),
    pattern('refused', 5, s('circle', { cx: 2.5, cy: 2.5, r: 1.4, class: 'pattern-mark' })));
}

/**
 * @param {string} id
 * @param {string} name
 */
const swatch = (id, name) => s('svg', { width: 16, height: 16, 'aria-hidden': 'true', class: 'swatch' },
  s('rect', { width: 16, height: 16, rx: 2, fill: `url(#${id}-${name})` }));

/**
 * A round number at or above `most`, for the top of the axis.
 * @param {number} most
 */
function roundUp(most) {
  if (most <= 4) return 4;
  const power = 10 ** Math.floor(Math.log10(most));
  return [1, 2, 3, 4, 5, 6, 8, 10].map((factor) => factor * power).find((top) => top >= most) ?? most;
}

/**
 * @param {Day[]} days
 * @param {string} id
 * @param {number} width
 * @param {string} title
 */
function bars(days, id, width, title) {
  const top = roundUp(Math.max(...days.map((d) => SERIES.reduce((sum, [key]) => sum + d[key], 0))));
  const plot = { width: width - LEFT - 4, height: HEIGHT - BOTTOM - TOP };
  const slot = plot.width / days.length;
  const bar = Math.max(1, Math.min(slot * 0.72, 36));
  /** @param {number} count */
  const y = (count) => TOP + plot.height * (1 - count / top);
  const every = Math.max(1, Math.ceil(days.length / Math.max(2, Math.floor(plot.width / 64))));
  const lines = [0, 0.5, 1].map((part) => [
    s('line', { x1: LEFT, x2: width - 4, y1: y(top * part), y2: y(top * part), class: 'grid-line' }),
    s('text', { x: LEFT - 8, y: y(top * part) + 4, class: 'axis end' }, short(top * part)),
  ]);
  const columns = days.map((d, i) => {
    const x = LEFT + slot * i + (slot - bar) / 2;
    let below = 0;
    return s('g', null,
      s('title', null, `${day(d.day)}: ${SERIES.map(([key, words]) => `${number(d[key])} ${words}`).join(', ')}`),
      s('rect', { x: LEFT + slot * i, y: TOP, width: slot, height: plot.height, class: 'hover-area' }),
      SERIES.map(([key]) => {
        const from = below;
        below += d[key];
        return d[key] > 0 && s('rect', { x, y: y(below), width: bar, height: Math.max(y(from) - y(below), 0.5), fill: `url(#${id}-${key})`,
          class: `bar line-${key}` });
      }),
      i % every === 0 && s('text', { x: x + bar / 2, y: HEIGHT - 6, class: 'axis middle' }, shortDay(d.day)));
  });
  return s('svg', { width, height: HEIGHT, viewBox: `0 0 ${width} ${HEIGHT}`, role: 'img', 'aria-label': title, class: 'chart' },
    patterns(id), lines, columns);
}

/**
 * Lookups per day as stacked bars, with a legend and a table.
 * @param {Day[]} days
 * @param {string} [title]
 */
export function lookupChart(days, title = 'Lookups per day') {
  /** @param {'hits' | 'misses' | 'refused'} key */
  const sum = (key) => days.reduce((total, d) => total + d[key], 0);
  const totals = SERIES.map(([key, words]) => /** @type {const} */ ([key, words, sum(key)]));
  const all = totals.reduce((total, [, , count]) => total + count, 0);
  if (!all) return h('p', { class: 'empty-note' }, 'Nobody has looked anything up in this time.');
  const id = newId('chart');
  const frame = h('div', { class: 'chart-frame' });
  const words = `${title}: ${counted(all, 'lookup')} in ${counted(days.length, 'day')}. ${totals.map(([, what, count]) => `${number(count)} ${what}`).join(', ')}.`;
  const observer = new ResizeObserver(([{ contentRect }]) => {
    const width = Math.floor(contentRect.width);
    if (width > 0) frame.replaceChildren(bars(days, id, width, words));
  });
  observer.observe(frame);
  return h('figure', { class: 'chart-figure' },
    h('ul', { class: 'chart-legend' }, totals.map(([key, what, count]) => h('li', null, swatch(id, key), ' ', capital(what), ' ',
      h('strong', null, number(count))))),
    frame,
    h('details', { class: 'foldout' }, h('summary', null, 'As a table'),
      table(title, ['Day', ...SERIES.map(([, what]) => ({ name: capital(what), number: true }))],
        days.map((d) => [day(d.day), ...SERIES.map(([key]) => number(d[key]))]))));
}

/**
 * A bar in a table: how much of `most` a number is. The number stands beside it.
 * @param {number} count
 * @param {number} most
 */
export const share = (count, most) => s('svg', { class: 'share', width: '100%', height: 10, 'aria-hidden': 'true' },
  s('rect', { width: '100%', height: 10, rx: 2, class: 'share-ground' }),
  s('rect', { width: `${most ? Math.max((count / most) * 100, count ? 1 : 0) : 0}%`, height: 10, rx: 2, class: 'share-bar' }));
