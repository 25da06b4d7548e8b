// @ts-check
// Audit: the journal with filters, and what each recipient received.

import { address, get } from '../api.js';
import { button, data, h, linkButton, nodes } from '../dom.js';
import { selectField, textField, valuesOf } from '../fields.js';
import { exact, moment, number } from '../format.js';
import { attempt, badge, heading } from '../notices.js';
import { OPERATIONS, operationName } from '../operations.js';
import { go, href } from '../router.js';
import { may } from '../session.js';
import { table } from '../table.js';
import { chosenPeriod, period, periodFields, periodForm } from './period.js';

const LINES_PER_PAGE = 50;
const NAMES = ['since', 'until', 'token', 'operation', 'outcome', 'actor', 'request'];
const OUTCOMES = [['', 'any'], ['hit', 'found'], ['miss', 'nothing found'], ['refused', 'refused'], ['done', 'done (actions)'],
  ['failed', 'failed (actions)']];
/** @type {Record<string, [Tone, string]>} */
const OUTCOME_BADGES = { hit: ['good', 'found'], miss: ['none', 'nothing found'], refused: ['warn', 'refused'], done: ['good', 'done'],
  failed: ['bad', 'failed'] };
/**
 * The links between the pages about the journal.
 * @param {string} current
 */
export function auditTabs(current) {
  const tabs = [['audit', 'Lines'], ['audit/recipients', 'Recipients'], ...(may('auditProof') ? [['audit/proof', 'Verify and prove']] : [])];
  return h('nav', { class: 'tabs', 'aria-label': 'Audit' }, h('ul', null, tabs.map(([path, name]) =>
    h('li', null, h('a', { href: `#/${path}`, 'aria-current': path === current && 'page' }, name)))));
}

/** @param {Api.EventShown} event */
const outcome = (event) => {
  const [tone, words] = OUTCOME_BADGES[event.outcome] ?? ['none', event.outcome];
  const reason = event.kind === 'request' && event.reason;
  return [badge(tone, words), reason && h('span', { class: 'second-line' }, h('code', null, data(reason)))];
};

/** @param {Api.EventShown} event */
const whoOf = (event) => (event.kind === 'admin'
  ? [event.via === 'admin API' && 'token ', data(event.actor), h('span', { class: 'second-line' }, `through the ${event.via}`)]
  : [data(event.tokenName ?? event.token), event.tokenName && h('span', { class: 'second-line' }, h('code', null, event.token)),
    event.via && h('span', { class: 'second-line' }, `through the ${event.via}`)]);

/** @param {Api.EventShown} event */
function detailOf(event) {
  if (event.kind !== 'admin') return event.count && event.count > 1 ? `${number(event.count)} requests` : h('code', null, data(event.requestId));
  const counts = Object.entries(event.counts ?? {}).map(([name, count]) => `${name} ${number(count)}`).join(', ');
  const parts = nodes([event.what && data(event.what), counts, event.ticket && h('span', { class: 'ticket' }, data(event.ticket))]);
  return parts.length ? parts.map((part, i) => [i > 0 && ' · ', part]) : '–';
}

/**
 * The digests of a line, for those who compare them.
 * @param {Api.EventShown} event
 */
function digests(event) {
  const list = event.kind === 'admin' ? event.subjects.map((digest) => ['about', digest])
    : [['profile', event.profileDigest], ['value', event.valueDigest]].filter(([, digest]) => digest);
  return h('details', { class: 'foldout tight' }, h('summary', null, `${number(event.seq)}`), h('ul', { class: 'digests' },
    h('li', null, `node ${event.node}`), list.map(([what, digest]) => h('li', null, `${what} `, h('code', null, digest)))));
}

/** @param {Api.EventShown} event */
const rowOf = (event) => [h('time', { datetime: event.time }, exact(event.time)), data(operationName(event.operation)), outcome(event), whoOf(event),
  detailOf(event), digests(event)];

const COLUMNS = ['Time (UTC)', 'Operation', 'Outcome', 'Token or user', 'Request or counts', 'Line'];

/** @param {URLSearchParams} query */
function filters(query) {
  const form = h('form', { class: 'filters', autocomplete: 'off' }, periodFields(query, '7d'),
    textField('token', 'Token', { value: query.get('token'), placeholder: 'name or id' }),
    selectField('operation', 'Operation', [['', 'any'], ...OPERATIONS], { chosen: query.get('operation') ?? '' }),
    selectField('outcome', 'Outcome', OUTCOMES, { chosen: query.get('outcome') ?? '' }),
    textField('actor', 'User', { value: query.get('actor') }),
    textField('request', 'Request id', { value: query.get('request') }),
    h('div', { class: 'actions' }, h('button', { type: 'submit', class: 'primary' }, 'Show'),
      h('a', { class: 'button', href: '#/audit' }, 'Clear')));
  form.addEventListener('submit', (event) => {
    event.preventDefault();
    const { span, from, to, ...rest } = valuesOf(form);
    go(['audit'], { ...chosenPeriod({ span, from, to }), ...rest });
  });
  return form;
}

/** @param {PageInput} input */
export async function audit({ query, signal }) {
  const wanted = { ...Object.fromEntries(NAMES.map((name) => [name, query.get(name)])), ...period(query, '7d') };
  const first = await get('/audit', { signal, query: { ...wanted, limit: LINES_PER_PAGE } });
  const shown = table('Journal', COLUMNS, first.events.map(rowOf),
    { empty: 'No line matches. Choose a longer period or fewer filters.', className: 'journal' });
  let before = first.next;
  const more = button('Show older lines', () => attempt(more, async () => {
    const older = await get('/audit', { signal, query: { ...wanted, limit: LINES_PER_PAGE, before } });
    const added = table('Journal', COLUMNS, older.events.map(rowOf));
    const rows = [...added.querySelectorAll('tr')].slice(1);
    shown.querySelector('tbody')?.append(...rows);
    before = older.next;
    more.hidden = !before;
    if (rows[0]) { rows[0].tabIndex = -1; rows[0].focus(); }
  }), { hidden: !before });
  return [
    heading('Audit', linkButton('Download as CSV', address('/audit', { query: { ...wanted, format: 'csv' } }), { download: 'audit.csv' })),
    auditTabs('audit'), filters(query),
    h('p', { class: 'note' }, 'Newest first. The journal has keyed digests of people, numbers and addresses, never these themselves.'),
    shown, h('p', null, more),
  ];
}

/** @param {PageInput} input */
export async function recipients({ query, signal }) {
  const { recipients: all } = await get('/audit/summary', { signal, query: period(query) });
  /**
   * @param {string} token
   * @param {string} [result]
   */
  const lines = (token, result) => href(['audit'], { ...period(query), token, outcome: result });
  return [
    heading('Audit'), auditTabs('audit/recipients'), periodForm(['audit', 'recipients'], query),
    table('Recipients', ['Recipient', { name: 'Requests', number: true }, { name: 'Found', number: true },
      { name: 'Nothing found', number: true }, { name: 'Refused', number: true }, 'First', 'Last'],
      all.map((row) => [
        [h('a', { href: lines(row.token) }, data(row.tokenName ?? row.token)),
          row.tokenName && h('span', { class: 'second-line' }, h('code', null, row.token))],
        number(row.requests), h('a', { href: lines(row.token, 'hit') }, number(row.hits)), number(row.misses), number(row.refused),
        moment(row.firstAt), moment(row.lastAt),
      ]), { empty: 'Nobody has asked for anything in this time.' }),
  ];
}
