// @ts-check
// Jobs: long work that goes on without the browser. Each has its own address, so that one can come back to it.

import { ApiError, get, post, remove } from '../api.js';
import { ask } from '../dialog.js';
import { button, data, h, nodes } from '../dom.js';
import { distance, moment } from '../format.js';
import { follow, progressBar, progressText } from '../jobs.js';
import { badge, flashNext, heading, problem } from '../notices.js';
import { go, href } from '../router.js';
import { table } from '../table.js';
import { importResult } from './import-report.js';
import { steps } from './import-file.js';
import { correctResult, eraseResult, exportResult, optOutResult, proofResult, removeResult, sweepResult, undoResult } from './job-results.js';
import { verifyResult } from './verify-result.js';

/** @type {Record<Api.Kind, (job: Api.JobShown) => Content>} */
const RESULTS = {
  import: importResult, undo: undoResult, optOuts: optOutResult, export: exportResult, verify: verifyResult, proof: proofResult, sweep: sweepResult, erase: eraseResult,
  correct: correctResult, remove: removeResult,
};

/** @type {Record<Api.Kind, (job: Api.JobShown) => string>} */
const TITLES = {
  import: ({ input }) => `${input?.dryRun ? 'Check' : 'Import'} ${input?.fileName ?? 'a file'}`, undo: () => 'Undo of an import', optOuts: () => 'List of opt-outs', export: () => 'Export',
  verify: () => 'Verification of the journal', proof: () => 'Proof for an auditor', sweep: () => 'Removal of what has ended',
  erase: () => 'Erasure', correct: () => 'Correction', remove: () => 'Removal of a detail',
};

/** @type {Partial<Record<Api.Kind, [string, string]>>} */
const PAGES = {
  import: ['imports', 'Imports'], undo: ['imports', 'Imports'], optOuts: ['opt-outs', 'Opt-outs'], export: ['export', 'Export'],
  verify: ['audit/proof', 'Audit'], proof: ['audit/proof', 'Audit'], sweep: ['retention', 'Retention'],
};

/**
 * What stays when a job is stopped, if that is not everything as before.
 * @type {Partial<Record<Api.Kind, string>>}
 */
const STAYS_WHEN_STOPPED = { optOuts: 'The lines that were done stay opted out.', sweep: 'What was removed stays removed.' };

/** These are completed in any case, once they have begun. */
const CANNOT_BE_STOPPED = new Set(['erase', 'correct', 'remove']);

/** @param {Api.JobShown} job */
const title = (job) => TITLES[job.kind](job);

/** @type {Record<Api.State, [Tone, string]>} */
const STATES = { running: ['busy', 'running'], done: ['good', 'done'], failed: ['bad', 'not done'], cancelled: ['none', 'stopped'] };

/** @param {Api.JobShown} job */
const stateBadge = ({ state }) => badge(...STATES[state]);

/** @param {Api.JobShown} job */
async function stop(job) {
  await ask({
    title: 'Stop this?',
    danger: true,
    intro: h('p', null, STAYS_WHEN_STOPPED[job.kind] ?? 'What was begun is given up. Nothing is changed.'),
    confirm: 'Stop it',
    act: () => post('/jobs/{id}/cancel', {}, { path: { id: job.id } }),
  });
}

/**
 * Throws a job away that has ended, with its files.
 * @param {Api.JobShown} job
 */
async function throwAway(job) {
  const answer = await ask({
    title: 'Throw this away?',
    danger: true,
    intro: h('p', null, job.hasFile || job.hasRejects ? 'It is no longer listed, and its files are deleted.' : 'It is no longer listed.',
      ' What it has done stays done.'),
    confirm: 'Throw away',
    act: () => remove('/jobs/{id}', undefined, { path: { id: job.id } }),
  });
  if (answer) flashNext('Thrown away.');
  return Boolean(answer);
}

/** @param {Api.JobShown} job */
function ended(job) {
  return [
    job.state === 'failed' && problem(new ApiError(job.code ?? 'failed',
      job.message ?? 'It failed, and the service did not say why. Its log may say more.')),
    job.state === 'cancelled' && h('p', { class: 'notice' }, STAYS_WHEN_STOPPED[job.kind] ? `This was stopped. ${STAYS_WHEN_STOPPED[job.kind]}`
      : job.message ?? 'This was stopped. Nothing was changed.'),
    job.result && RESULTS[job.kind](job),
    h('p', { class: 'actions' }, button('Throw away', async () => { if (await throwAway(job)) go(['jobs']); })),
  ];
}

/**
 * The page of one job. It belongs to the page of the navigation where the job was begun.
 * @param {PageInput} here
 */
export async function jobPage(here) {
  const { params, signal } = here;
  const first = await get('/jobs/{id}', { path: { id: params.id }, signal });
  const [path, name] = PAGES[first.kind] ?? ['jobs', 'Jobs'];
  [here.nav] = path.split('/');
  const bar = progressBar(title(first));
  const body = h('div');
  const head = h('p', { class: 'note' });
  /** @param {Api.JobShown} job */
  const showHead = (job) => head.replaceChildren(stateBadge(job), ' ',
    `begun ${moment(job.startedAt)}${job.endedAt ? `, ended ${moment(job.endedAt)}` : ''}, by `, data(job.actor));

  const run = async () => {
    body.replaceChildren(h('div', { class: 'panel' }, bar.node,
      h('p', { class: 'note' }, 'You can close this page: the work goes on. Come back to this address, or find it under Jobs.'),
      !CANNOT_BE_STOPPED.has(first.kind) && h('div', { class: 'actions' }, button('Stop', () => stop(first)))));
    bar.update(first, false);
    try {
      const last = await follow(first.id,
        { signal, onChange: (job, isOffline) => { bar.update(job, isOffline); if (job) showHead(job); } });
      body.replaceChildren(...nodes(ended(last)));
      body.prepend(h('p', { class: 'visually-hidden', role: 'status' }, progressText(last)));
    } catch (error) {
      if (signal.aborted) return;
      body.replaceChildren(problem(error, run));
    }
  };

  showHead(first);
  if (first.state === 'running') run();
  else body.replaceChildren(...nodes(ended(first)));
  return [
    h('p', { class: 'breadcrumb' }, h('a', { href: `#/${path}` }, name)),
    heading(title(first)), first.kind === 'import' && steps(first.input?.dryRun ? 3 : 4), head, body,
  ];
}

/** @param {PageInput} input */
export async function jobs({ signal, refresh }) {
  const { jobs: all } = await get('/jobs', { signal });
  /** @param {Api.JobShown} job */
  const away = (job) => button('Throw away', async () => { if (await throwAway(job)) refresh(); },
    { class: 'quiet', 'aria-label': `Throw away: ${title(job)}, begun ${moment(job.startedAt)}` });
  return [
    heading('Jobs'),
    h('p', { class: 'lead' }, 'Your long-running work of the last days. It goes on when you close the browser.'),
    table('Jobs', ['What', 'State', 'Begun', 'Progress', { name: 'Actions', hidden: true }], all.map((job) => [
      h('a', { href: href(['jobs', job.id]) }, title(job)), stateBadge(job), `${moment(job.startedAt)} (${distance(job.startedAt)})`,
      progressText(job), job.state !== 'running' && away(job)]),
    { empty: 'You have no jobs. Imports, exports, verifications and lists of opt-outs appear here.' }),
  ];
}
