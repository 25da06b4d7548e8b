// @ts-check
// What the dialogs about people have in common.

import { h, value } from '../dom.js';
import { textField } from '../fields.js';
import { counted } from '../format.js';

/** More profiles than this are only changed if their number is typed in. */
const CONFIRM_ABOVE_PROFILES = 10;
const MAX_LISTED_PROFILES = 20;

/** @param {...(string | false | undefined)} texts */
export const paragraphs = (...texts) => texts.filter(Boolean).map((text) => h('p', null, text));

/**
 * A field in which the number of profiles has to be typed, if there are many.
 * @param {number} count
 * @param {string} verb
 */
export function confirmMany(count, verb) {
  if (count <= CONFIRM_ABOVE_PROFILES) return null;
  return textField('typed', `Type ${count} to ${verb} ${count} profiles`, {
    required: true, inputmode: 'numeric', pattern: String(count), title: `Type the number ${count}`,
  });
}

/** @param {Array<{ profileUrl: string, details?: number }>} profiles */
export function profileList(profiles) {
  const rest = profiles.length - MAX_LISTED_PROFILES;
  // Longer lists scroll, also with the keyboard.
  return h('ul', { class: 'profile-list', tabindex: profiles.length > 5 && '0', 'aria-label': 'Profiles' },
    profiles.slice(0, MAX_LISTED_PROFILES).map(({ profileUrl, details }) => h('li', null, value(profileUrl),
      details !== undefined && `, ${counted(details, 'detail')}`)),
    rest > 0 && h('li', null, `and ${counted(rest, 'more profile')}`));
}

/**
 * Whether callers receive a detail.
 * @param {Api.HeldShown} detail
 */
export const isGivenOut = (detail) => detail.label === 'personal' && !detail.isSuppressed && !detail.isExpired && !detail.keptForUndoUntil;

/**
 * What was done, and what to know about it.
 * @param {{ inForce?: boolean, isOnRecord?: boolean }} result
 */
export const afterwards = ({ inForce = true, isOnRecord = true }) => [
  !inForce && 'It is saved, but the running service has not confirmed it yet. Look again in a moment.',
  !isOnRecord && 'It is done, but not yet on record: the audit journal is off, or cannot be written now. The line follows by itself once it can.',
].filter(Boolean).map((text) => ` ${text}`).join('');
