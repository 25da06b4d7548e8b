// @ts-check
// What small jobs have done.

import { address } from '../api.js';
import { h, linkButton } from '../dom.js';
import { bytes, counted, number } from '../format.js';
import { notice, section } from '../notices.js';
import { table } from '../table.js';
import { afterwards } from './dialog-parts.js';
import { personLink } from './people-search.js';

/**
 * @param {{ inForce?: boolean, isOnRecord?: boolean }} result
 * @returns {Tone}
 */
const tone = ({ inForce = true, isOnRecord = true }) => (inForce && isOnRecord ? 'good' : 'warn');

/**
 * Fetches the file of a job. What was done is not the next thing to do.
 * @param {string} text
 * @param {Api.JobShown} job
 */
const download = (text, job) => linkButton(text, address('/jobs/{id}/file', { path: { id: job.id } }), {
  download: true, class: 'button primary', onclick: (/** @type {any} */ { currentTarget }) => currentTarget.classList.remove('primary'),
});

/** @param {Api.JobShown} job */
export const undoResult = ({ result }) => notice('good',
  h('p', null, `The import is undone: ${counted(result.removed, 'detail')} that it had added removed, ${counted(result.restored, 'detail')} that it had changed or withdrawn restored.`),
  h('p', null, 'What was removed by hand or erased, or has expired since, is not restored.'));

/** @param {Api.JobShown} job */
export const optOutResult = ({ input, result }) => [
  notice(tone(result), h('p', null, `${number(result.changed)} opted out, ${number(result.already)} opted out already${input?.person ? ', the people who have the numbers and addresses among them' : ''}.`, afterwards(result),
    result.notOnFile > 0 && ` ${number(result.notOnFile)} of them ${result.notOnFile === 1 ? 'is' : 'are'} not on file; the opt-out counts for what is imported later.`)),
  result.holders?.length > 0 && section('Still given out',
    h('p', null, 'These profiles hold a number or an address of the list, and other details of theirs are still given out. If the people want to opt out completely, send the list again and choose so, or open each of them.'),
    table('Profiles', ['Profile', { name: 'Details still given out', number: true }],
      result.holders.map((/** @type {Api.HolderShown} */ { profileUrl, stillDisclosed }) => [personLink(profileUrl), number(stillDisclosed)])),
    result.moreHolders > 0 && h('p', null, `And ${counted(result.moreHolders, 'more profile')}.`)),
  result.rejected.length > 0 && section('Lines that could not be read',
    h('p', null, `${counted(result.rejected.length + result.moreRejected, 'line')} ${result.rejected.length === 1 ? 'was' : 'were'} not done. Correct ${result.rejected.length === 1 ? 'it' : 'them'} and send ${result.rejected.length === 1 ? 'it' : 'them'} again.`),
    table('Lines', [{ name: 'Line', number: true }, 'Reason'], result.rejected.map((/** @type {{ line: number, reason: string }} */ { line, reason }) => [number(line), reason])),
    result.moreRejected > 0 && h('p', null, `And ${counted(result.moreRejected, 'more line')}.`)),
];

/** @param {Api.JobShown} job */
export const exportResult = (job) => notice('good',
  h('p', null, `${counted(job.result.profiles, 'profile')} with ${counted(job.result.details, 'detail')}, ${bytes(job.result.bytes)}.`),
  job.hasFile ? h('p', { class: 'actions' },
    download('Download', job)) : h('p', null,
    'The file is no longer kept: files are deleted after a day, or when somebody is erased. Export again.'),
  h('p', null, 'It contains personal data, and an erasure does not reach what you have downloaded. Delete that when it is no longer needed.'));

/** @param {Api.JobShown} job */
export const proofResult = (job) => notice('good',
  h('p', null, `Lines ${number(job.result.first)} to ${number(job.result.last)} of the journal, ${bytes(job.result.bytes)}.`),
  h('p', { class: 'actions' }, download('Download the proof', job)),
  h('p', null, 'It contains digests, token ids, user names and tickets; no phone number, e-mail address or profile URL. An auditor checks it with:'),
  h('pre', null, h('code', null, 'contactd audit verify --proof FILE --root KEY')));

/** @param {Api.JobShown} job */
export const sweepResult = ({ input, result }) => notice(input?.dryRun ? null : 'good',
  h('p', null, `${counted(result.expired, 'expired detail')} and ${counted(result.tooOld, 'detail')} older than the maximum age of ${result.tooOld === 1 ? 'its' : 'their'} source ${input?.dryRun ? 'would be removed' : 'removed'}.`),
  input?.dryRun && h('p', null, 'Nothing is removed yet.'));

/** @param {Api.JobShown} job */
export const eraseResult = ({ result }) => notice(tone(result),
  h('p', null, `Erased: ${counted(result.profiles.length, 'profile')}.`, afterwards(result)));

/** @param {Api.JobShown} job */
export const correctResult = ({ result }) => notice(tone(result), h('p', null, 'Corrected.', afterwards(result)));

/** @param {Api.JobShown} job */
export const removeResult = ({ result }) => notice(tone(result),
  h('p', null, result.changed ? 'Removed.' : 'Nothing was removed: it was not there any more.', afterwards(result)));
