// @ts-check
// Opting somebody out, and taking that back. Every dialog says in whole sentences what will happen.

import { post } from '../api.js';
import { ask } from '../dialog.js';
import { h, nodes, value } from '../dom.js';
import { radioField } from '../fields.js';
import { counted, kindName } from '../format.js';
import { resultOf } from '../jobs.js';
import { flash } from '../notices.js';
import { afterwards, confirmMany, isGivenOut, paragraphs } from './dialog-parts.js';
import { caseField } from './people-search.js';

/**
 * Opts out the person, or the number or address and, if wanted, the people whose profiles hold it.
 * @param {Api.FoundShown} found
 * @param {() => void} again
 */
export async function optOut(found, again) {
  const { subject, profiles } = found;
  const isValue = subject.kind !== 'profile';
  const kind = kindName(subject.kind);
  const others = found.held.filter((detail) => detail.value !== subject.text && isGivenOut(detail)).length;
  const scope = isValue && profiles.length > 0 && radioField('scope', 'Who opts out?', [
    { value: 'person', label: profiles.length === 1 ? 'The whole person' : `The people of all ${profiles.length} profiles that hold it`,
      hint: `Everything in ${profiles.length === 1 ? 'the profile' : `these ${profiles.length} profiles`}, now and later.` },
    { value: 'value', label: `Only this ${kind}`,
      hint: others ? `${counted(others, 'other detail')} would still be given out.` : 'Nothing else of theirs is given out now.' },
  ], 'person');
  const many = isValue && confirmMany(profiles.length, 'opt out');
  if (scope && many) {
    scope.addEventListener('change', () => {
      many.hidden = !scope.querySelector('[value=person]:checked');
      many.querySelector('input')?.toggleAttribute('disabled', many.hidden);
    });
  }
  const answer = await ask({
    title: isValue ? `Opt out this ${kind}` : 'Opt out this person',
    intro: [
      h('p', null, value(subject.text)),
      paragraphs(
        'From the moment this is done, no lookup gives it out, also if it is imported again. Callers get the same answer as for somebody who is not on file.',
        found.held.length > 0 && 'The data stays stored. To delete it too, use Erase instead.',
        !found.held.length && 'Nobody is on file under this now. The opt-out counts for what is imported later. Check for a typing error first.'),
    ],
    fields: [scope, many, caseField()],
    confirm: 'Opt out',
    act: async ({ scope: chosen, ticket }, said) => resultOf(await post('/people/opt-out', {
      q: subject.text, ticket, person: chosen === 'person', confirmed: chosen === 'person' ? profiles.length : undefined,
    }), said),
  });
  if (!answer) return;
  sayOptedOut(answer.result);
  again();
}

/** @param {Api.OptOutShown} result */
function sayOptedOut(result) {
  const { changed, already, holders = [] } = result;
  const left = holders.reduce((sum, { stillDisclosed }) => sum + stillDisclosed, 0);
  flash(changed ? 'Opted out.' : already ? 'This was opted out already.' : 'Done.',
    result.onFile === false && ' Nobody is on file under this; the opt-out counts for what is imported later.',
    left > 0 && ` ${counted(left, 'other detail')} of ${counted(holders.length, 'profile')} that ${holders.length === 1 ? 'holds' : 'hold'} it ${left === 1 ? 'is' : 'are'} still given out.`,
    afterwards(result));
}

/**
 * Opts out somebody without showing what is held: by hand, or while nothing can be put on record.
 * @param {string} q
 */
export async function optOutUnseen(q) {
  const many = h('div');
  const answer = await ask({
    title: 'Opt out',
    intro: [
      h('p', null, value(q)),
      paragraphs(
        'From the moment this is done, no lookup gives it out, also if it is imported again. Callers get the same answer as for somebody who is not on file.',
        'The data stays stored.'),
    ],
    fields: [
      radioField('scope', 'If it is a number or an address, who opts out?', [
        { value: 'person', label: 'The whole person', hint: 'Also everything else in the profiles that hold it.' },
        { value: 'value', label: 'Only this number or address', hint: 'Other details of theirs are still given out.' },
      ], 'person'),
      many, caseField(),
    ],
    confirm: 'Opt out',
    act: async ({ scope, ticket, typed }, said) => {
      try {
        return await resultOf(await post('/people/opt-out', { q, ticket, person: scope === 'person', confirmed: typed && Number(typed) }),
          said);
      } catch (error) {
        if (error.code === 'confirmation_needed') many.replaceChildren(...nodes(confirmMany(error.count, 'opt out')));
        throw error;
      }
    },
  });
  if (answer) sayOptedOut(answer.result);
}

/**
 * Takes an opt-out back.
 * @param {Api.FoundShown} found
 * @param {() => void} again
 */
export async function withdraw(found, again) {
  const given = found.held.filter((detail) => isGivenOut({ ...detail, isSuppressed: false })).length;
  // If the person is opted out and not the number or address itself, that is what is taken back.
  const isOfPerson = found.subject.kind !== 'profile' && !found.suppression.isOfTheValueOnly;
  const q = isOfPerson ? found.profiles[0] : found.subject.text;
  const answer = await ask({
    title: 'Take back this opt-out',
    intro: [
      h('p', null, value(q)),
      paragraphs(
        given ? `Lookups may give out ${counted(given, 'detail')} again from the moment this is done, unless something else of it is opted out.`
          : 'Nothing is held that could be given out. What is imported from now on may be.',
        'Do this only if the person has asked for it, or if the opt-out was a mistake.'),
    ],
    fields: [caseField()],
    confirm: 'Take it back',
    act: ({ ticket }) => post('/opt-outs/withdraw', { q, ticket }),
  });
  if (!answer) return;
  flash(answer.result.changed ? 'The opt-out is taken back.' : 'This was not opted out.', afterwards(answer.result));
  again();
}
