// @ts-check
// Importing a file, steps 1 and 2: sending it, and saying which column means what. Steps 3 and 4 are jobs.

import { ApiError, get, post, remove, upload } from '../api.js';
import { busy, button, data, h } from '../dom.js';
import { dropZone } from '../drop-zone.js';
import { valuesOf } from '../fields.js';
import { bytes, counted } from '../format.js';
import { attempt, badge, heading, problem, section } from '../notices.js';
import { go } from '../router.js';
import { facts, table } from '../table.js';
import { FIELDS, otherCountry, previewTable } from './import-preview.js';
import { choices, fileChoices, remembered } from './import-settings.js';

const PREVIEW_WAIT_MS = 250;

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
    dropZone({ label: 'Choose a file', accept: '.csv,.tsv,.txt,.xlsx,.jsonl,.ndjson,.parquet,.gz,.zst',
      hint: 'An Excel workbook (.xlsx), CSV with a header, JSON lines or Parquet.', onFile: send }),
    h('div', { class: 'progress' }, bar, text, stop), failed,
    h('p', { class: 'note' }, 'Nothing is loaded yet. You see what would happen first, and say yes at the end.'),
  ];
}

/** @param {Api.UploadShown} file */
function mappingTable(file) {
  const rows = file.columns.map((column, i) => {
    const offered = column.suggested;
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
  /** @type {Record<string, string[]>} */
  const mapping = {};
  for (const select of form.querySelectorAll('select')) {
    const { column } = select.dataset;
    if (!select.value || column === undefined) continue;
    const others = mapping[select.value] ??= [];
    if (others.length && !/^(phone|email)(:|$)/.test(select.value)) {
      const words = FIELDS.find(([field]) => field === select.value)?.[1];
      throw new ApiError('twice', `Two columns are the ${words}. Choose one of them.`);
    }
    others.push(column);
  }
  return mapping;
}

/**
 * What the form says, as the API wants it. Throws an error with words if something is missing.
 * @param {HTMLFormElement} form
 * @param {Api.UploadShown} file
 * @param {string | undefined} encoding
 */
function settings(form, file, encoding) {
  const values = valuesOf(form);
  const mapping = mappingOf(form);
  if (file.columns.length) {
    if (!mapping.profileUrl) throw new ApiError('missing', 'Say which column is the profile URL.');
    if (!['phone', 'phone:work', 'email', 'email:work'].some((field) => mapping[field])) throw new ApiError('missing', 'Say which column is the phone number or the e-mail address.');
    if (!mapping.source && !values.source) throw new ApiError('missing', 'Give the source a name, below.');
  }
  return {
    upload: file.id, mapping, source: values.source, region: values.region, dateFormat: values.dateFormat,
    requireBasis: values.requireBasis, replaceSource: values.replaceSource, remember: values.remember,
    sheet: file.sheet, encoding,
  };
}

/** @type {Record<string, string>} */
const DELIMITERS = { ',': 'comma', ';': 'semicolon', '\t': 'tab', '|': 'vertical bar' };

/** @param {Api.UploadShown} file */
const aboutFile = ({ name, bytes: size, format, encoding, sheet, delimiter, columns }) => facts([
  ['File', data(name)], ['Size', bytes(size)], ['Format', format], ['Encoding', encoding], ['Sheet', sheet && data(sheet)],
  ['Columns', columns.length ? counted(columns.length, 'column') : null], ['Separated by', delimiter && (DELIMITERS[delimiter] ?? delimiter)],
]);

/**
 * The columns of a file, with what was said about them before: then others are not used.
 * @param {Api.ColumnShown[]} columns
 * @param {Record<string, string | string[]>} [mapping]
 */
function withEarlier(columns, mapping) {
  if (!mapping || !Object.keys(mapping).length) return columns;
  /** @param {Api.ColumnShown} column */
  const earlier = (column) => Object.entries(mapping).find(([, names]) => [names].flat().includes(column.name))?.[0];
  return columns.map((column) => ({ ...column, field: earlier(column) ?? null, suggested: undefined }));
}

/** @param {PageInput} input */
export async function importUpload({ params, query, signal }) {
  const [earlier, like] = [query.get('job'), query.get('like')];
  const job = earlier ? await get('/jobs/{id}', { path: { id: earlier }, signal }) : null;
  const asked = { sheet: query.get('sheet') ?? job?.input.sheet, encoding: query.get('encoding') ?? job?.input.encoding ?? undefined };
  const [file, { sources }] = await Promise.all([
    get('/uploads/{id}', { path: { id: params.id }, query: asked, signal }),
    get('/sources', { signal }),
  ]);
  const known = sources.find(({ name }) => name === like);
  /** @type {Partial<Api.ToImport>} */
  const before = job?.input ?? (known ? { ...known.reading, source: known.name } : {});
  const preview = h('div');
  const wrong = h('p', { class: 'error-text', role: 'alert' });
  const check = h('button', { type: 'submit', class: 'primary' }, 'Check all rows');
  const discard = button('Throw the file away', () => attempt(discard, async () => {
    await remove('/uploads/{id}', undefined, { path: { id: file.id } });
    go(['imports']);
  }));
  const form = h('form', { autocomplete: 'off' },
    section('Which column is what?', mappingTable({ ...file, columns: withEarlier(file.columns, before.mapping) })),
    section('Settings', h('div', { class: 'panel' }, choices(before, sources))),
    section('First rows, as they would be loaded', preview),
    wrong,
    h('div', { class: 'actions' }, check, discard));

  let turn = 0;
  const show = async () => {
    turn += 1;
    const mine = turn;
    try {
      const { upload: id, remember, ...rest } = settings(form, file, asked.encoding);
      const { rows, otherCountries } = await post('/uploads/{id}/preview', rest, { path: { id }, signal });
      if (mine !== turn) return;
      const country = /** @type {HTMLSelectElement} */ (form.elements.namedItem('region'));
      preview.replaceChildren(...[otherCountry(otherCountries, country), previewTable(rows)].filter((part) => part !== null));
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
        const started = await post('/imports', { ...settings(form, file, asked.encoding), dryRun: true });
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
    heading('Import a file'), steps(2), aboutFile(file), fileChoices(file, query), !job && !like && remembered(file, sources), form,
  ];
}
