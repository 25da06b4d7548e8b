// @ts-check
// Importing a file: how its rows are read, and what was remembered of the source.

import { countries } from '../countries.js';
import { button, data, h } from '../dom.js';
import { checkField, selectField, textField } from '../fields.js';
import { notice } from '../notices.js';
import { go } from '../router.js';

const DATES = [['', 'as in 2026-05-01'], ['%d.%m.%Y', '01.05.2026 (day first)'], ['%d/%m/%Y', '01/05/2026 (day first)'],
  ['%m/%d/%Y', '05/01/2026 (month first)']];

const ENCODINGS = ['UTF-8', 'Windows-1252', 'windows-1250', 'windows-1251', 'ISO-8859-15', 'macintosh', 'UTF-16LE', 'UTF-16BE'];

/**
 * @param {Partial<Api.ToImport>} before
 * @param {Api.KnownSource[]} sources
 */
export const choices = (before, sources) => [
  textField('source', 'Source', { value: before.source, maxlength: 100, list: 'known-sources',
    hint: 'Where this data comes from, such as crm. People who ask what is held about them read this name. A column “source” of a row wins.' }),
  h('datalist', { id: 'known-sources' }, sources.map(({ name }) => h('option', { value: name }))),
  h('div', { class: 'field-pair' },
    selectField('region', 'Country of numbers without +', [['', 'none: such numbers are rejected'], ...countries()], { chosen: before.region ?? '' }),
    selectField('dateFormat', 'Dates are written', DATES, { chosen: before.dateFormat ?? '' })),
  checkField('requireBasis', 'Reject details without a lawful basis', { checked: before.requireBasis }),
  checkField('replaceSource', 'The file is complete: replace the source',
    { checked: before.replaceSource,
    hint: 'Also deletes what the source held before and is not in this file. You see how much that is before you decide.' }),
  checkField('remember', 'Remember the columns and settings for this source', { checked: before.remember ?? true,
    hint: 'They are offered when you import its next file.' }),
];

/**
 * How the file itself is read: which sheet, and in which encoding. Another choice opens the page again.
 * @param {Api.UploadShown} file
 * @param {URLSearchParams} query
 */
export function fileChoices({ id, sheet, sheets = [], encoding }, query) {
  /** @param {string} name */
  const reopen = (name) => (/** @type {Event} */ event) => {
    const { value } = /** @type {HTMLSelectElement} */ (event.target);
    go(['imports', 'upload', id], { ...Object.fromEntries(query), [name]: value });
  };
  const names = encoding && !ENCODINGS.includes(encoding) ? [encoding, ...ENCODINGS] : ENCODINGS;
  return h('div', { class: 'field-pair' },
    sheets.length > 1 && selectField('sheetShown', 'Sheet', sheets.map((name) => [name, name]), { chosen: sheet, onchange: reopen('sheet') }),
    encoding && selectField('encodingShown', 'Encoding of the text', names.map((name) => [name, name]),
      { chosen: encoding, onchange: reopen('encoding'), hint: 'Choose another one if letters such as ä or é are wrong below.' }));
}

/**
 * Offers what was remembered of sources whose columns this file has.
 * @param {Api.UploadShown} file
 * @param {Api.KnownSource[]} sources
 */
export function remembered({ id, columns }, sources) {
  const names = columns.map(({ name }) => name);
  const fits = sources.filter(({ reading }) => {
    const headers = Object.values(reading?.mapping ?? {}).flat();
    return headers.length > 0 && headers.every((header) => names.includes(header));
  });
  return fits.slice(0, 3).map(({ name }) => notice(null,
    h('p', null, 'This file has the columns of the source ', data(name), '.'),
    h('p', { class: 'actions' }, button(`Read it like ${name}`, () => go(['imports', 'upload', id], { like: name })))));
}
