// @ts-check
// Long work: following a job by its id, and showing how far it is.

import * as api from './api.js';
import { h } from './dom.js';
import { bytes, capital, number } from './format.js';

const FIRST_WAIT_MS = 300;
const LONGEST_WAIT_MS = 2000;

/**
 * @param {any} answer
 * @returns {answer is Api.JobShown}
 */
export const isJob = (answer) => Boolean(answer && answer.id && answer.state && answer.kind);

/**
 * @param {number} ms
 * @param {AbortSignal} [signal]
 */
const pause = (ms, signal) => new Promise((resolve, reject) => {
  const timer = setTimeout(() => resolve(null), ms);
  signal?.addEventListener('abort', () => { clearTimeout(timer); reject(signal.reason); }, { once: true });
});

/**
 * Asks for a job until it has ended. `onChange(job, isOffline)` gets every state, also while the service does not answer.
 * @param {string} id
 * @param {{ signal?: AbortSignal, onChange: (job: Api.JobShown | null, isOffline: boolean) => void }} options
 */
export async function follow(id, { signal, onChange }) {
  let wait = FIRST_WAIT_MS;
  /** @type {Api.JobShown | null} */
  let job = null;
  for (;;) {
    try {
      job = await api.get('/jobs/{id}', { path: { id }, signal });
      onChange(job, false);
      if (job.state !== 'running') return job;
    } catch (error) {
      if (error.code !== 'offline' && error.code !== 'timeout') throw error;
      onChange(job, true);
    }
    await pause(wait, signal);
    wait = Math.min(wait * 1.4, LONGEST_WAIT_MS);
  }
}

/**
 * Some calls answer at once if they can, and with a job if they have to wait for an import. Returns the result in both cases;
 * `said` gets a sentence while it waits.
 * @template Answer
 * @param {Answer} answer
 * @param {(text: string) => void} [said]
 * @returns {Promise<Exclude<Answer, Api.JobShown>>}
 */
export async function resultOf(answer, said = () => {}) {
  if (!isJob(answer)) return /** @type {any} */ (answer);
  const job = await follow(answer.id, { onChange: (now, isOffline) => said(isOffline ? OFFLINE : progressText(now)) });
  if (job.state === 'done') return job.result;
  throw new api.ApiError(job.code ?? job.state, job.message ?? 'It was stopped. Nothing was changed.');
}

const OFFLINE = 'The service does not answer. Trying again…';

/**
 * "Reading: 120,000 of 1,000,000 rows"
 * @param {Api.JobShown | null} job
 */
export function progressText(job) {
  if (!job) return 'Waiting for the service…';
  if (job.state !== 'running') return { done: 'Done', failed: 'Not done', cancelled: 'Stopped' }[job.state] ?? job.state;
  const { done, total, unit, phase } = job.progress;
  /** @param {number} count */
  const amount = (count) => (unit === 'bytes' ? bytes(count) : number(count));
  const suffix = unit && unit !== 'bytes' ? ` ${unit}` : '';
  const name = capital(phase ?? 'working');
  if (total) return `${name}: ${amount(done)} of ${amount(total)}${suffix}`;
  return done ? `${name}: ${amount(done)}${suffix}` : `${name}…`;
}

/**
 * A bar that shows the progress of a job. Screen readers hear of every new step and every quarter, not of every row.
 * @param {string} title
 */
export function progressBar(title) {
  const bar = h('progress', { 'aria-label': title });
  const text = h('p', { class: 'progress-text' });
  const heard = h('p', { class: 'visually-hidden', role: 'status' });
  let before = '';
  return {
    node: h('div', { class: 'progress' }, bar, text, heard),
    /**
     * @param {Api.JobShown | null} job
     * @param {boolean} isOffline
     */
    update(job, isOffline) {
      const { done, total, phase } = job?.progress ?? { done: 0 };
      if (total) { bar.max = total; bar.value = done; } else bar.removeAttribute('value');
      const words = isOffline ? OFFLINE : progressText(job);
      text.textContent = words;
      const step = isOffline ? 'offline' : `${phase} ${total ? Math.floor((done / total) * 4) : ''}`;
      if (step !== before) heard.textContent = words;
      before = step;
    },
  };
}
