// @ts-check
// Importing a file, steps 1 and 2: sending it, and saying which column means what. Steps 3 and 4 are jobs.

import { ApiError, get, post, remove, upload } from '../api.js';
import { busy, button, data, h } from '../dom.js';
import { dropZone } from '../drop-zone.js';
import { checkField, selectField, textField, valuesOf } from '../fields.js';
import { bytes, counted } from '../format.js';
import { attempt, badge, heading, problem, section } from '../notices.js';
import { reasonText } from '../reasons.js';
import { go } from '../router.js';
import { facts, table } from '../table.js';

const PREVIEW_WAIT_MS = 250;

/** What a column can mean, in the order in which it is offered. */
const FIELDS = [
  ['profileUrl', 'profile URL'], ['phone', 'phone number'], ['email', 'e-mail address'],
  ['phoneLabel', 'label of the number (personal, work)'],
  ['emailLabel', 'label of the address (personal, work)'], ['confidence', 'confidence (0 to 100)'], ['observedAt', 'last known correct on'],
  ['basis', 'lawful basis'], ['expiresAt', 'expires on'], ['region', 'country of the number'], ['source', 'source'],
];

const DATES = [['', 'as in 2026-05-01'], ['%d.%m.%Y', '01.05.2026 (day first)'], ['%d/%m/%Y', '01/05/2026 (day first)'],
  ['%m/%d/%Y', '05/01/2026 (month first)']];

const STEPS = ['File', 'Columns', 'Check', 'Import'];

/**
 * Where in the import one is.
 * @param {number} current
 */
export const steps = (current) => h('ol', { class: 'steps', 'aria-label': 'Steps of an import' }, STEPS.map((name, i) =>
  h('li', { 'aria-current': i + 1 === current && 'step', class: i + 1 < current && 'step-done' }, name)));

/** @param {PageInput} input */
export async function importNew({ signal }) {
  const bar = h('progress', { 'aria-label': 'Sending the file', hidden: true });
  const text = h('p', { class: 'progress-text', role: 'status' });
  const failed = h('div');
  /** @type {AbortController | null} */
  let sending = null;
  const stop = button('Stop', () => sending?.abort(), { hidden: true });
  signal.addEventListener('abort', () => sending?.abort());
  /** @param {File} file */
  const send = async (file) => {
    sending?.abort();
    sending = new AbortController();
    failed.replaceChildren();
    bar.hidden = false;
    stop.hidden = false;
    text.textContent = 'Sending the file. Keep this page open until it is sent.';
    try {
      if (file.size === 0) throw new ApiError('empty', 'This file is empty.');
      // Before a long upload, so that it does not fail at its end because the session is over.
      await get('/session');
      const made = await upload(file, {
        signal: sending.signal,
        onProgress: (loaded, total) => { bar.max = total; bar.value = loaded; if (loaded === total) text.textContent = 'Sent. Reading the columns…'; },
      });
      if (!signal.aborted) go(['imports', 'upload', made.id]);
    } catch (error) {
      if (!error.code) throw error;
      failed.replaceChildren(problem(error));
      text.textContent = '';
    } finally {
      bar.hidden = true;
      stop.hidden = true;
    }
  };
  return [
    h('p', { class: 'breadcrumb' }, h('a', { href: '#/imports' }, 'Imports')),
    heading('Import a file'), steps(1),
    dropZone({ label: 'Choose a file', accept: '.csv,.tsv,.txt,.jsonl,.ndjson,.parquet,.gz,.zst',
      hint: 'CSV with a header, JSON lines or Parquet, also as .gz or .zst.', onFile: send }),
    h('div', { class: 'progress' }, bar, text, stop), failed,
    h('p', { class: 'note' }, 'Nothing is loaded yet. You see what would happen first, and say yes at the end.'),
  ];
}

/** @param {Api.UploadShown} file */
function mappingTable(file) {
  /** @param {Api.ColumnShown} column */
  const offeredFor = (column) => Object.entries(file.suggestedMapping).find(([, name]) => name === column.name)?.[0];
  const rows = file.columns.map((column, i) => {
    const offered = offeredFor(column);
    const chosen = column.field ?? offered ?? '';
    return [
      h('strong', { id: `column-${i}` }, data(column.name || '(no name)')),
      h('ul', { class: 'samples' }, column.samples.map((sample) => h('li', null, data(sample || '(empty)')))),
      h('select', { name: `column-${i}`, 'aria-labelledby': `column-${i}`, 'data-column': column.name },
        h('option', { value: '', selected: chosen === '' }, 'not used'),
        FIELDS.map(([field, words]) => h('option', { value: field, selected: field === chosen }, words))),
      column.field ? badge('good', 'recognised') : offered ? badge('warn', 'suggested: check it') : null,
    ];
  });
  return table('Columns of the file', ['Column', 'First values', 'Means', { name: 'Recognised', hidden: true }], rows,
    { className: 'column-mapping', empty: 'This file has no columns of its own: its fields have the names that contactd uses.' });
}

/** @param {HTMLFormElement} form */
function mappingOf(form) {
  /** @type {Record<string, string>} */
  const mapping = {};
  for (const select of form.querySelectorAll('select')) {
    const { column } = select.dataset;
    if (!select.value || column === undefined) continue;
    if (mapping[select.value]) {
      const words = FIELDS.find(([field]) => field === select.value)?.[1];
      throw new ApiError('twice', `Two columns are the ${words}. Choose one of them.`);
    }
    mapping[select.value] = column;
  }
  return mapping;
}

/**
 * What the form says, as the API wants it. Throws an error with words if something is missing.
 * @param {HTMLFormElement} form
 * @param {Api.UploadShown} file
 */
function settings(form, file) {
  const values = valuesOf(form);
  const mapping = mappingOf(form);
  if (file.columns.length) {
    if (!mapping.profileUrl) throw new ApiError('missing', 'Say which column is the profile URL.');
    if (!mapping.phone && !mapping.email) throw new ApiError('missing', 'Say which column is the phone number or the e-mail address.');
    if (!mapping.source && !values.source) throw new ApiError('missing', 'Give the source a name, below.');
  }
  return {
    upload: file.id, mapping, source: values.source, region: values.region, dateFormat: values.dateFormat,
    requireBasis: values.requireBasis, replaceSource: values.replaceSource,
  };
}

/** @type {Record<string, Tone>} */
const VERDICTS = { loaded: 'good', 'loaded in part': 'warn', rejected: 'bad', 'opted out': 'none' };

/** @param {Api.RowShown[]} rows */
function previewTable(rows) {
  const used = FIELDS.filter(([field]) => rows.some(({ values }) => values[field]));
  const columns = [{ name: 'Line', number: true }, 'Verdict', ...used.map(([, words]) => words.replace(/ \(.*/, ''))];
  return table('First rows', columns, rows.map((row) => [
    row.line,
    [badge(VERDICTS[row.verdict] ?? 'none', row.verdict),
      row.reasons.map(({ column, reason }) => h('span', { class: 'second-line' }, column && [data(column), ': '], reasonText(reason)))],
    ...used.map(([field]) => row.values[field] && data(row.values[field])),
  ]), { empty: 'The file has no rows.', className: 'row-preview' });
}

/** @param {Partial<Api.ToImport>} [before] */
const choices = (before = {}) => [
  textField('source', 'Source', { value: before.source, maxlength: 100,
    hint: 'Where this data comes from, such as crm. People who ask what is held about them read this name. A column “source” of a row wins.' }),
  h('div', { class: 'field-pair' },
    textField('region', 'Country of numbers without +',
      { value: before.region, maxlength: 2, pattern: '[A-Za-z]{2}', title: 'Two letters, such as US', placeholder: 'US',
      hint: 'Two letters. Empty: such numbers are rejected.' }),
    selectField('dateFormat', 'Dates are written', DATES, { chosen: before.dateFormat ?? '' })),
  checkField('requireBasis', 'Reject details without a lawful basis', { checked: before.requireBasis }),
  checkField('replaceSource', 'The file is complete: replace the source',
    { checked: before.replaceSource,
    hint: 'Also deletes what the source held before and is not in this file. You see how much that is before you decide.' }),
];

/** @type {Record<string, string>} */
const DELIMITERS = { ',': 'comma', ';': 'semicolon', '\t': 'tab', '|': 'vertical bar' };

/** @param {Api.UploadShown} file */
const aboutFile = ({ name, bytes: size, format, encoding, delimiter, columns }) => facts([
  ['File', data(name)], ['Size', bytes(size)], ['Format', format], ['Encoding', encoding],
  ['Columns', columns.length ? counted(columns.length, 'column') : null], ['Separated by', delimiter && (DELIMITERS[delimiter] ?? delimiter)],
]);

/**
 * The columns of a file, with what was said about them in an earlier check.
 * @param {Api.ColumnShown[]} columns
 * @param {Record<string, string>} [mapping]
 */
function withEarlier(columns, mapping = {}) {
  /** @param {Api.ColumnShown} column */
  const earlier = (column) => Object.entries(mapping).find(([, name]) => name === column.name)?.[0];
  return columns.map((column) => ({ ...column, field: column.field ?? earlier(column) ?? null }));
}

/** @param {PageInput} input */
export async function importUpload({ params, query, signal }) {
  const earlier = query.get('job');
  const [file, job] = await Promise.all([
    get('/uploads/{id}', { path: { id: params.id }, signal }),
    earlier ? get('/jobs/{id}', { path: { id: earlier }, signal }) : null,
  ]);
  /** @type {Partial<Api.ToImport>} */
  const before = job?.input ?? {};
  const preview = h('div');
  const wrong = h('p', { class: 'error-text', role: 'alert' });
  const check = h('button', { type: 'submit', class: 'primary' }, 'Check all rows');
  const discard = button('Throw the file away', () => attempt(discard, async () => {
    await remove('/uploads/{id}', undefined, { path: { id: file.id } });
    go(['imports']);
  }));
  const form = h('form', { autocomplete: 'off' },
    section('Which column is what?', mappingTable({ ...file, columns: withEarlier(file.columns, before.mapping) })),
    section('Settings', h('div', { class: 'panel' }, choices(before))),
    section('First rows, as they would be loaded', preview),
    wrong,
    h('div', { class: 'actions' }, check, discard));

  let turn = 0;
  const show = async () => {
    turn += 1;
    const mine = turn;
    try {
      const { upload: id, ...rest } = settings(form, file);
      const { rows } = await post('/uploads/{id}/preview', rest, { path: { id }, signal });
      if (mine === turn) preview.replaceChildren(previewTable(rows));
    } catch (error) {
      if (signal.aborted) return;
      if (!error.code) throw error;
      if (mine === turn) preview.replaceChildren(h('p', { class: 'empty-note' }, error.message));
    }
  };
  let waiting = 0;
  form.addEventListener('input', () => {
    wrong.textContent = '';
    clearTimeout(waiting);
    waiting = setTimeout(show, PREVIEW_WAIT_MS);
  });
  form.addEventListener('submit', (event) => {
    event.preventDefault();
    busy(check, async () => {
      try {
        const started = await post('/imports', { ...settings(form, file), dryRun: true });
        go(['jobs', started.id]);
      } catch (error) {
        if (!error.code) throw error;
        wrong.textContent = error.message;
      }
    });
  });
  show();
  return [
    h('p', { class: 'breadcrumb' }, h('a', { href: '#/imports' }, 'Imports')),
    heading('Import a file'), steps(2), aboutFile(file), form,
  ];
}
