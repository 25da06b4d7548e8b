// @ts-check
// Importing a file: its first rows as they would be stored, beside what the file says.

import { countryName } from '../countries.js';
import { button, data, h } from '../dom.js';
import { listed } from '../format.js';
import { badge, notice } from '../notices.js';
import { reasonText } from '../reasons.js';
import { table } from '../table.js';

/** What a column can mean, in the order in which it is offered. */
export const FIELDS = [
  ['profileUrl', 'profile URL'], ['phone', 'phone number'], ['phone:work', 'phone number at work'],
  ['email', 'e-mail address'], ['email:work', 'e-mail address at work'],
  ['phoneLabel', 'label of the number (personal, work)'],
  ['emailLabel', 'label of the address (personal, work)'], ['confidence', 'confidence (0 to 100)'], ['observedAt', 'last known correct on'],
  ['basis', 'lawful basis'], ['expiresAt', 'expires on'], ['region', 'country of the number'], ['source', 'source'],
];

/** @type {Record<string, Tone>} */
const VERDICTS = { loaded: 'good', 'loaded in part': 'warn', rejected: 'bad', 'opted out': 'none' };

/** @param {string} time */
const withoutMidnight = (time) => time.replace('T00:00:00Z', '');

/**
 * A value as it is stored, and what the file says if that is something else.
 * @param {string | undefined} written
 * @param {string | undefined} stored
 */
function cell(written, stored) {
  if (!stored) return written && data(written);
  const shown = withoutMidnight(stored);
  return [data(shown), written !== undefined && written !== shown && h('span', { class: 'second-line' }, 'in the file: ', data(written))];
}

/** @param {Api.RowShown[]} rows */
export function previewTable(rows) {
  const used = FIELDS.filter(([field]) => rows.some(({ values, stored }) => values[field] ?? stored[field]));
  const columns = [{ name: 'Line', number: true }, 'Verdict', ...used.map(([, words]) => words.replace(/ \(.*/, ''))];
  return table('First rows', columns, rows.map((row) => [
    row.line,
    [badge(VERDICTS[row.verdict] ?? 'none', row.verdict),
      row.reasons.map(({ column, reason }) => h('span', { class: 'second-line' }, column && [data(column), ': '], reasonText(reason)))],
    ...used.map(([field]) => cell(row.values[field], row.stored[field])),
  ]), { empty: 'The file has no rows.', className: 'row-preview' });
}

/**
 * Points out that the numbers are of another country than the one that is chosen.
 * @param {string[]} others
 * @param {HTMLSelectElement} chosen
 */
export function otherCountry(others, chosen) {
  if (!others.length) return null;
  const use = (/** @type {string} */ code) => button(`Use ${countryName(code)}`, () => {
    chosen.value = code;
    chosen.dispatchEvent(new Event('input', { bubbles: true }));
  });
  return notice('warn',
    h('p', null, `Most of these numbers are probably not numbers of ${countryName(chosen.value)}, but of ${listed(others.map(countryName)).replace(' and ', ' or ')}. Check the country before you import.`),
    h('p', { class: 'actions' }, others.map(use)));
}
