// Long work: following a job by its id, and showing how far it is.

import * as api from './api.js';
import { h } from './dom.js';
import { bytes, capital, number } from './format.js';

const FIRST_WAIT_MS = 300;
const LONGEST_WAIT_MS = 2000;

export const isJob = (answer) => Boolean(answer && answer.id && answer.state && answer.kind);

const pause = (ms, signal) => new Promise((resolve, reject) => {
  const timer = setTimeout(resolve, ms);
  signal?.addEventListener('abort', () => { clearTimeout(timer); reject(signal.reason); }, { once: true });
});

/** Asks for a job until it has ended. `onChange(job, isOffline)` gets every state, also while the service does not answer. */
export async function follow(id, { signal, onChange }) {
  let wait = FIRST_WAIT_MS;
  let job = null;
  for (;;) {
    try {
      job = await api.get(api.at`/jobs/${id}`, { signal });
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
 */
export async function settled(answer, said = () => {}) {
  if (!isJob(answer)) return answer;
  const job = await follow(answer.id, { onChange: (now, isOffline) => said(isOffline ? OFFLINE : progressText(now)) });
  if (job.state === 'done') return job.result;
  throw new api.ApiError(job.code ?? job.state, job.message ?? 'It was stopped. Nothing was changed.');
}

const OFFLINE = 'The service does not answer. Trying again…';

/** "Reading: 120,000 of 1,000,000 rows" */
export function progressText(job) {
  if (!job) return 'Waiting for the service…';
  if (job.state !== 'running') return { done: 'Done', failed: 'Not done', cancelled: 'Stopped' }[job.state] ?? job.state;
  const { done, total, unit, phase } = job.progress ?? {};
  const amount = (count) => (unit === 'bytes' ? bytes(count) : number(count));
  const suffix = unit && unit !== 'bytes' ? ` ${unit}` : '';
  const name = capital(phase ?? 'working');
  if (total) return `${name}: ${amount(done)} of ${amount(total)}${suffix}`;
  return done ? `${name}: ${amount(done)}${suffix}` : `${name}…`;
}

/** A bar that shows the progress of a job. Screen readers hear of every new step and every quarter, not of every row. */
export function progressBar(title) {
  const bar = h('progress', { 'aria-label': title });
  const text = h('p', { class: 'progress-text' });
  const heard = h('p', { class: 'unseen', role: 'status' });
  let before = '';
  return {
    node: h('div', { class: 'progress' }, bar, text, heard),
    update(job, isOffline) {
      const { done, total, phase } = job?.progress ?? {};
      if (total) { bar.max = total; bar.value = done; } else bar.removeAttribute('value');
      const words = isOffline ? OFFLINE : progressText(job);
      text.textContent = words;
      const step = isOffline ? 'offline' : `${phase} ${total ? Math.floor((done / total) * 4) : ''}`;
      if (step !== before) heard.textContent = words;
      before = step;
    },
  };
}
