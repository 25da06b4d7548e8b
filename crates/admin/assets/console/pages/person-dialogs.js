// @ts-check
// Erasing somebody, correcting and removing details. Every dialog says in whole sentences what will happen.

import { post } from '../api.js';
import { ask } from '../dialog.js';
import { h, value } from '../dom.js';
import { checkField, selectField, textField } from '../fields.js';
import { counted, kindName } from '../format.js';
import { resultOf } from '../jobs.js';
import { flash } from '../notices.js';
import { afterwards, confirmMany, paragraphs, profileList } from './dialog-parts.js';
import { caseField } from './people-search.js';

/**
 * Erases everybody whom a search has found. A dry run says first whom that concerns.
 * @param {Pick<Api.FoundShown, 'subject'>} found
 * @param {() => void} again
 * @param {(...content: Content[]) => void} [say]
 */
export async function erase(found, again, say = flash) {
  const { subject } = found;
  /** @type {Api.ErasureShown} */
  let preview;
  try {
    preview = await resultOf(await post('/people/erase', { q: subject.text, dryRun: true }));
  } catch (error) {
    if (!error.code) throw error;
    await ask({ title: 'Erase', intro: paragraphs('It cannot be said now whom this would erase.', error.message), confirm: 'Close',
      act: async () => null });
    return;
  }
  const { profiles, sharedWith } = preview;
  const details = profiles.reduce((sum, profile) => sum + profile.details, 0);
  const isValue = subject.kind !== 'profile';
  // Then the number or address itself is all there is to opt out.
  const isNobody = isValue && !profiles.length;
  const answer = await ask({
    title: profiles.length > 1 ? `Erase ${profiles.length} profiles` : isNobody ? `Opt out this ${kindName(subject.kind)}` : 'Erase this person',
    danger: true,
    wide: true,
    intro: [
      details
        ? h('p', null, h('strong', null,
          `${counted(details, 'detail')} of ${counted(profiles.length, 'profile')} ${details === 1 ? 'is' : 'are'} deleted from every file of the service.`), ' This cannot be undone.')
        : h('p', null, h('strong', null, 'Nothing is on file under this.'),
          ' There is nothing to delete. The opt-out counts for what is imported later.'),
      profiles.length > 0 && profileList(profiles),
      paragraphs(
        isNobody ? `This ${kindName(subject.kind)} is opted out, so that no lookup gives it out.`
          : `${profiles.length > 1 ? 'These people are' : 'The person is'} also opted out${isValue ? `, and so is this ${kindName(subject.kind)}` : ''}, so that the next import does not bring them back.`,
        'What was uploaded to this console, and the exports and rejected rows that it keeps, are deleted for everybody, except those that a running import uses. In a cluster, this is about the server that you use now: the others keep such files for at most a day.',
        'Earlier backups, files that were downloaded, rejects files and enriched files may still contain them: delete those yourself. The audit journal keeps digests only.'),
      sharedWith.length > 0 && [
        h('p', null, `Not erased, although they have a number or an address in common (${counted(sharedWith.length, 'profile')}):`),
        profileList(sharedWith),
      ],
    ],
    fields: [
      !isNobody && checkField('values', 'Also opt out their numbers and addresses',
        { hint: 'Then these are not given out under any other profile either.' }),
      confirmMany(profiles.length, 'erase'), caseField(),
    ],
    confirm: profiles.length > 1 ? `Erase ${profiles.length} profiles` : isNobody ? 'Opt out' : 'Erase',
    act: async ({ values, ticket }, said) => resultOf(await post('/people/erase', {
      q: subject.text, values, ticket, confirmed: profiles.length,
    }), said),
  });
  if (!answer) return;
  const removed = answer.result.profiles.reduce((sum, profile) => sum + profile.details, 0);
  say(isNobody && !removed ? 'Opted out. There was nothing to delete.'
    : `Erased: ${counted(removed, 'detail')} of ${counted(answer.result.profiles.length, 'profile')} deleted and opted out.`,
    afterwards(answer.result));
  again();
}

/**
 * Puts a right value beside or in the place of a wrong one.
 * @param {Api.HeldShown} detail
 * @param {() => void} again
 */
export async function correct(detail, again) {
  const kind = kindName(detail.kind);
  const answer = await ask({
    title: `Correct this ${kind}`,
    intro: [
      h('p', null, value(detail.value), ', from ', h('bdi', null, detail.source)),
      paragraphs('The right value is stored under the source “manual” with the highest confidence, so that it is the one that is given out.'),
    ],
    fields: [
      textField('value', `The right ${kind}`,
        { required: true, inputmode: detail.kind === 'phone' ? 'tel' : 'email', value: detail.value }),
      selectField('label', 'It is', [['personal', 'personal'], ['work', 'work (stored, never given out)']], { chosen: detail.label }),
      checkField('replace', 'Remove the wrong entry', {
        checked: true, hint: `If the next import of ${detail.source} contains it again, it comes back. Have it corrected there, too.`,
      }),
      caseField(),
    ],
    confirm: 'Correct',
    act: async ({ value: right, label, replace, ticket }, said) => {
      const { profileUrl, kind: of, value: wrong, source } = detail;
      const replaces = replace ? { value: wrong, source } : undefined;
      return resultOf(await post('/people/correct', { profileUrl, kind: of, value: right, label, replaces, ticket }), said);
    },
  });
  if (!answer) return;
  flash(answer.values.label === 'work' ? 'Corrected. Lookups do not give it out, because it is a work value.'
    : 'Corrected. Lookups give out the new value from now on.', afterwards(answer.result));
  again();
}

/**
 * Removes one detail.
 * @param {Api.HeldShown} detail
 * @param {() => void} again
 */
export async function removeDetail(detail, again) {
  const answer = await ask({
    title: `Remove this ${kindName(detail.kind)}`,
    danger: true,
    intro: [
      h('p', null, value(detail.value), ', from ', h('bdi', null, detail.source)),
      paragraphs(
        'It is deleted from every file of the service. This cannot be undone.',
        `The person is not opted out: if the next import of ${detail.source} contains it again, it comes back. To keep it out, opt out or erase.`),
    ],
    fields: [caseField()],
    confirm: 'Remove',
    act: async ({ ticket }, said) => resultOf(await post('/people/remove', {
      profileUrl: detail.profileUrl, kind: detail.kind, value: detail.value, source: detail.source, ticket,
    }), said),
  });
  if (!answer) return;
  flash(answer.result.changed ? 'Removed.' : 'Nothing was removed: it was not there any more.', afterwards(answer.result));
  again();
}
