// @ts-check
// Overview: how much is looked up and held, and whether something needs attention.

import { get } from '../api.js';
import { lookupChart, share } from '../charts.js';
import { data, h } from '../dom.js';
import { counted, distance, micros, moment, number } from '../format.js';
import { badge, heading, notice, section } from '../notices.js';
import { href } from '../router.js';
import { may } from '../session.js';
import { table } from '../table.js';

/**
 * @param {string} name
 * @param {string} count
 * @param {string} [note]
 */
const figure = (name, count, note) => h('div', { class: 'stat' },
  h('dt', null, name), h('dd', null, h('strong', null, count), note && h('span', { class: 'note' }, note)));

/** Findings whose advice, a command, can be followed on a page. */
const PAGES = { tokens: /** @type {const} */ (['tokens', 'Tokens']), imports: /** @type {const} */ (['audit', 'Audit']) };

/**
 * @param {string} check
 * @param {string} advice
 */
function whatToDo(check, advice) {
  if (!may('nodes')) return 'An operator sees what to do, and can do it.';
  const [page, name] = PAGES[/** @type {keyof typeof PAGES} */ (check)] ?? [];
  if (page && name && may(page)) return ['What to do: see the page ', h('a', { href: href([page]) }, name), '.'];
  return [advice.includes('contactd ') ? 'What to do, on the server: ' : 'What to do: ', data(advice)];
}

/** @param {Api.FindingShown[]} list */
function findings(list) {
  const wrong = list.filter(({ verdict }) => verdict !== 'ok');
  return wrong.map(({ check, verdict, message, advice }) => notice(verdict === 'fail' ? 'bad' : 'warn',
    h('p', null, badge(verdict === 'fail' ? 'bad' : 'warn', check), ' ', data(message)),
    advice && h('p', null, whatToDo(check, advice))));
}

/** @param {Api.JournalShown} journal */
export function journalBadge({ state, comparedAt }) {
  if (state === 'off') return badge('warn', 'off: nothing is on record');
  if (state === 'whole') return badge('good', `whole as of ${moment(comparedAt)}`);
  if (state === 'broken') return badge('bad', `not whole, found on ${moment(comparedAt)}`);
  return badge('warn', 'not verified yet');
}

/** @param {Api.OverviewShown} overview */
function record({ journal, lastImport, lastBackup }) {
  const imported = lastImport
    ? [`${moment(lastImport.importedAt)}, `, data(lastImport.source), `, ${counted(lastImport.rows, 'row')}`]
    : 'never';
  const backup = lastBackup ? `${moment(lastBackup.madeAt)} (${distance(lastBackup.madeAt)})` : badge('warn', may('nodes') ? 'never: run contactd backup on the server' : 'never: ask an operator to make one');
  return h('dl', { class: 'facts' },
    h('div', null, h('dt', null, 'Audit journal'), h('dd', null, journalBadge(journal), ' ',
      h('span', { class: 'note' }, counted(journal.lines, 'line')), ' ',
      may('auditProof') && h('a', { href: href(['audit', 'proof']) }, 'Verify'))),
    h('div', null, h('dt', null, 'Last import'),
      h('dd', null, imported, ' ', may('imports') && h('a', { href: href(['imports']) }, 'Imports'))),
    h('div', null, h('dt', null, 'Last backup'), h('dd', null, backup)));
}

/** @param {Api.OverviewShown['held']} held */
function held({ details }) {
  const sources = new Map();
  for (const { source, kind, count } of details) {
    const row = sources.get(source) ?? { phone: 0, email: 0 };
    row[kind] += count;
    sources.set(source, row);
  }
  const rows = [...sources].map(([source, row]) => ({ source, ...row, all: row.phone + row.email })).sort((a, b) => b.all - a.all);
  const most = Math.max(...rows.map((row) => row.all));
  return table('Details by source',
    ['Source', { name: 'Phone numbers', number: true }, { name: 'E-mail addresses', number: true }, { name: 'Share', hidden: true }],
    rows.map(({ source, phone, email, all }) => [data(source), number(phone), number(email), share(all, most)]),
    { empty: 'Nothing is held yet. Import a file to begin.', className: 'source-shares' });
}

/** @param {Api.OverviewShown['tokensEnding']} tokens */
function ending(tokens) {
  /** @param {Api.OverviewShown['tokensEnding'][number]} token */
  const name = ({ id, name: text }) => (may('tokens') ? h('a', { href: href(['tokens', id]) }, data(text)) : data(text));
  return table('Tokens that end soon', ['Token', 'Ends'],
    tokens.map((token) => [name(token), `${moment(token.endsAt)} (${distance(token.endsAt)})`]),
    { empty: 'No token ends within 14 days.' });
}

/** @param {string} state */
export const nodeBadge = (state) => badge(state === 'serving' ? 'good' : state === 'loading' ? 'busy' : 'warn', state);

/** @param {PageInput} input */
export async function overview({ signal }) {
  const all = await get('/overview', { signal });
  const details = all.held.details.reduce((sum, { count }) => sum + count, 0);
  return [
    heading('Overview'),
    findings(all.findings),
    h('dl', { class: 'stats' },
      figure('Profiles', number(all.held.profiles)),
      figure('Details', number(details)),
      figure('Opt-outs', number(all.suppressions)),
      all.latency
        ? figure('Lookup time', micros(all.latency.p50Micros), `99 of 100 within ${micros(all.latency.p99Micros)}`)
        : figure('Lookup time', '–', 'no lookup since the start')),
    section('Lookups in the last 30 days', lookupChart(all.lookups)),
    h('div', { class: 'two-columns' },
      section('Record and safety', record(all)),
      section('Tokens that end soon', ending(all.tokensEnding))),
    section('What is held, by source', held(all.held)),
    all.nodes.length > 0 && section('Nodes', table('Nodes', ['Node', 'State', 'Changes behind'],
      all.nodes.map(({ name, state, behind }) => [data(name), nodeBadge(state), number(behind)]))),
  ];
}
