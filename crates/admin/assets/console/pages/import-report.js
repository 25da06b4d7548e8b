// @ts-check
// Importing a file, steps 3 and 4: what a check has found or an import has done.

import { address, post } from '../api.js';
import { countryName } from '../countries.js';
import { ask } from '../dialog.js';
import { button, data, h, linkButton } from '../dom.js';
import { textField } from '../fields.js';
import { counted, number } from '../format.js';
import { attempt, notice, section } from '../notices.js';
import { reasonText, warningText } from '../reasons.js';
import { go, href } from '../router.js';
import { table } from '../table.js';
import { undo } from './imports.js';

/** @typedef {{ line: number, column: string, reason: string }} Example */

const COUNTS = [
  ['rows', 'Rows read'], ['profilesNew', 'Profiles new'], ['profilesChanged', 'Profiles changed'], ['detailsNew', 'Details new'],
  ['detailsChanged', 'Details changed'],
  ['detailsUnchanged', 'Details unchanged'], ['detailsWithdrawn', 'Details withdrawn'], ['suppressed', 'Details of people who opted out'],
  ['rejected', 'Rows with a rejected value'],
  ['partlyRejected', 'Of these loaded in part'],
];

/** @param {Record<string, number>} report */
const numbers = (report) => h('dl', { class: 'counts' },
  COUNTS.filter(([key]) => report[key] !== undefined).map(([key, name]) => h('div', { class: !report[key] && 'zero' }, h('dt', null, name), h('dd', null, number(report[key])))));

/** @param {Api.JobShown} job */
function rejects(job) {
  /** @type {{ rejected: number, rejectsNotKept?: number, rejectedByReason: Record<string, number>, examples: Example[] }} */
  const { rejected, rejectsNotKept = 0, rejectedByReason, examples } = job.result;
  if (!rejected) return null;
  const reasons = Object.entries(rejectedByReason).sort((a, b) => b[1] - a[1]);
  return section('Rejected values',
    h('p', null, 'A bad number or address is rejected alone; the other details of its row are loaded. Correct the rows in the rejects file and import that file: what was loaded before stays unchanged.'),
    h('p', null, job.hasRejects && linkButton(`Download ${counted(rejected - rejectsNotKept, 'rejected row')}`, address('/jobs/{id}/rejects', { path: { id: job.id } }),
      { download: true }), rejectsNotKept > 0 && ` ${counted(rejectsNotKept, 'more row')} did not fit into the file.`),
    table('Rejected values by reason', ['Reason', { name: 'Values', number: true }],
      reasons.map(([reason, count]) => [[reasonText(reason), h('span', { class: 'second-line' }, h('code', null, reason))], number(count)]),
      { className: 'narrow-table' }),
    examples.length > 0 && h('details', { class: 'foldout' }, h('summary', null, `The first ${examples.length} of them`),
      table('Examples', [{ name: 'Line', number: true }, 'Column', 'Reason'],
        examples.map(({ line, column, reason }) => [number(line), data(column), reasonText(reason)]))));
}

/** @param {{ warnings?: Array<{ warning: string, count: number, examples?: Array<{ line: number }>, countries?: string[] }>, columnsNotUsed?: string[] }} report */
function remarks({ warnings = [], columnsNotUsed = [] }) {
  return [
    warnings.map(({ warning, count, examples = [], countries = [] }) => notice('warn', h('p', null,
      countries.length ? warningText(warning) : `${counted(count, 'value')}: ${warningText(warning)}`,
      countries.length > 0 && `: probably ${countries.map(countryName).join(' or ')}`,
      examples.length > 0 && ` (line ${examples.map(({ line }) => number(line)).join(', ')})`, '.'))),
    columnsNotUsed.length > 0 && h('p', { class: 'note' }, 'Columns that are not used: ',
      columnsNotUsed.map((column, i) => [i > 0 && ', ', data(column)]), '.'),
  ];
}

/**
 * @param {Record<string, number>} report
 * @param {boolean} replaceSource
 */
function sentence({ rows, profilesNew, detailsNew, detailsChanged, detailsWithdrawn, rejected }, replaceSource) {
  return [
    `${counted(rows, 'row')} ${rows === 1 ? 'is' : 'are'} read.`,
    detailsNew !== undefined && ` ${counted(detailsNew, 'detail')} ${detailsNew === 1 ? 'is' : 'are'} added and ${number(detailsChanged)} updated; ${counted(profilesNew, 'profile')} ${profilesNew === 1 ? 'is' : 'are'} new.`,
    replaceSource && detailsWithdrawn !== undefined && ` ${counted(detailsWithdrawn, 'detail')} of this source that ${detailsWithdrawn === 1 ? 'is' : 'are'} not in the file ${detailsWithdrawn === 1 ? 'is' : 'are'} deleted.`,
    rejected > 0 && ` ${counted(rejected, 'row')} with a rejected value ${rejected === 1 ? 'is' : 'are'} kept in a rejects file.`,
  ];
}

/**
 * @param {Api.JobShown} job
 * @param {{ maxRejects?: string, maxWithdrawn?: string }} [allow]
 */
async function run(job, allow = {}) {
  const report = job.result;
  const isGuarded = Object.keys(allow).length > 0;
  const count = allow.maxWithdrawn ? report.detailsWithdrawn : report.rejected;
  const answer = await ask({
    title: 'Import this file',
    danger: Boolean(job.input.replaceSource && report.detailsWithdrawn) || isGuarded,
    intro: [
      h('p', null, sentence(report, job.input.replaceSource)),
      h('p', null, 'All of it is loaded, or nothing. Lookups go on meanwhile and see the old data until it is complete. You can undo the import afterwards, for as long as the list of imports says.'),
    ],
    fields: [isGuarded && textField('typed',
      `Type ${count} to go on although ${allow.maxWithdrawn ? `${counted(count, 'detail is', 'details are')} deleted` : `${counted(count, 'row has', 'rows have')} rejected values`}`, { required: true, pattern: String(count), inputmode: 'numeric' })],
    confirm: 'Import',
    act: () => post('/imports', { ...job.input, ...allow, dryRun: false }),
  });
  if (answer) go(['jobs', answer.result.id]);
}

/** @param {Api.JobShown} job */
function next(job) {
  const { input, result, state, code } = job;
  const back = linkButton('Change the columns or settings', href(['imports', 'upload', input.upload], { job: job.id }));
  const allow = code === 'too_many_rejects' ? { maxRejects: '100%' } : code === 'too_many_withdrawn' ? { maxWithdrawn: '100%' } : undefined;
  if (!input.dryRun && !allow) {
    return h('p', { class: 'actions' }, linkButton('All imports', href(['imports']), { class: 'button primary' }),
      state === 'done' && result.id && button('Undo this import', () => undo({ ...result, source: input.source ?? 'of its rows' })));
  }
  if (state === 'failed' && !allow) return h('p', { class: 'actions' }, back);
  if (state === 'failed') return h('p', { class: 'actions' }, back, button('Import it anyway', () => run(job, allow), { class: 'danger' }));
  return h('p', { class: 'actions' }, button('Import', () => run(job), { class: 'primary' }), back);
}

/**
 * Asks whether a new source is a typing mistake.
 * @param {Api.JobShown} job
 */
function similarSources({ input, result }) {
  /** @type {Array<{ source: string, known: string }>} */
  const similar = result.similarSources ?? [];
  return similar.map(({ source, known }) => {
    const other = button(`Check again as ${known}`, () => attempt(other, async () => {
      const started = await post('/imports', { ...input, source: known, dryRun: true });
      go(['jobs', started.id]);
    }));
    return notice('warn', h('p', null, 'The source ', data(source), ' is new. Did you mean ', data(known), '?'),
      input.dryRun && source === input.source && h('p', { class: 'actions' }, other));
  });
}

/** @param {Api.JobShown} job */
export function importResult(job) {
  const { input, result, state } = job;
  const isCompared = result.detailsNew !== undefined;
  const isNothing = isCompared && !result.detailsNew && !result.detailsChanged && !result.detailsWithdrawn;
  return [
    state === 'done' && notice(input.dryRun ? null : 'good',
      h('p', null, h('strong', null, input.dryRun ? 'Nothing is loaded yet.' : `Import ${result.id} is finished.`), ' ',
      !isCompared ? (input.dryRun ? 'Every row is read. Your role does not see people, so this check does not say what of it is on file.' : 'It is not on record yet, so its counts are not shown.')
        : isNothing ? 'The file contains nothing that is not held already.' : input.dryRun ? 'This is what the import would do.' : 'Lookups give out the new data.')),
    section(input.dryRun ? 'What would happen' : 'What was done', similarSources(job), numbers(result), remarks(result)),
    next(job), rejects(job),
  ];
}
