// @ts-check
// People: finding somebody, what is held about them and who received it; opting out, correcting and erasing.
// What was searched for is kept in memory only: in no address, no history and no log.

import { post } from '../api.js';
import { button, data, h, value } from '../dom.js';
import { ticketField } from '../fields.js';
import { capital, counted, day, kindName, moment } from '../format.js';
import { attempt, badge, heading, notice, problem, section, turnPage } from '../notices.js';
import { isOnRecord, may } from '../session.js';
import { table } from '../table.js';
import { optOut, optOutUnseen, withdraw } from './opt-out-dialogs.js';
import { keepTicket, personLink, takeWanted, ticketOfSearch } from './people-search.js';
import { correct, erase, removeDetail } from './person-dialogs.js';
import { makeReport, received } from './report.js';

/** With more profiles than this, each is folded. */
const MAX_OPEN_PROFILES = 3;

let asked = '';

/** @param {Api.FoundShown} found */
function state({ subject, suppression, held: details }) {
  if (suppression.isSuppressed) {
    const since = suppression.since ? ` since ${moment(suppression.since)}` : '';
    return badge('good', `opted out${since}`);
  }
  if (details.some((detail) => detail.isSuppressed)) return badge('warn', 'opted out in part');
  return badge('none', subject.kind === 'profile' ? 'not opted out' : `this ${kindName(subject.kind)} is not opted out`);
}

/**
 * Whether a detail is given to callers, and if not, why.
 * @param {Api.HeldShown} detail
 */
export function givenOut(detail) {
  if (detail.keptForUndoUntil) return `no: kept for undo until ${day(detail.keptForUndoUntil)}`;
  if (detail.isSuppressed) return 'no: opted out';
  if (detail.isExpired) return 'no: expired';
  if (detail.label === 'work') return 'no: only personal details are';
  return 'yes';
}

const COLUMNS = ['What', 'Source', 'Last known correct', 'Basis', 'Kept until', 'Given out', { name: 'Actions', hidden: true }];

/**
 * @param {string} name
 * @param {Api.HeldShown[]} details
 * @param {() => void} again
 */
function heldTable(name, details, again) {
  return table(name, COLUMNS, details.map((detail) => [
    [value(detail.value), h('span', { class: 'second-line' },
      `${capital(detail.label)} ${kindName(detail.kind)}, confidence ${detail.confidence}`)],
    data(detail.source), detail.observedAt ? day(detail.observedAt) : 'not known', detail.basis ? data(detail.basis) : 'not recorded',
    detail.expiresAt ? day(detail.expiresAt) : 'no end', givenOut(detail),
    !detail.keptForUndoUntil && h('span', { class: 'row-actions' },
      button('Correct', () => correct(detail, again), { class: 'quiet', 'aria-label': `Correct ${detail.value}` }),
      button('Remove', () => removeDetail(detail, again), { class: 'quiet', 'aria-label': `Remove ${detail.value}` })),
  ]), { empty: 'Nothing is held about this person, or under this number or address.' });
}

/**
 * What is held, by profile if there are several: folded if there are many.
 * @param {Api.FoundShown} found
 * @param {() => void} again
 */
function held(found, again) {
  if (found.profiles.length < 2) return heldTable('What is held', found.held, again);
  const shown = new Set(found.held.map((detail) => detail.profileUrl));
  return found.profiles.filter((profile) => shown.has(profile)).map((profile) => {
    const details = found.held.filter((detail) => detail.profileUrl === profile);
    return h('details', { class: 'profile-details', open: found.profiles.length <= MAX_OPEN_PROFILES },
      h('summary', null, value(profile), h('span', { class: 'heading-note' }, ` ${counted(details.length, 'detail')}`)),
      heldTable(profile, details, again), h('p', null, personLink(profile, 'Only this profile')));
  });
}

/** @param {Api.FoundShown} found */
function recipients(found) {
  if (!found.recipients.length) {
    const since = found.disclosuresKnownSince ? ` since ${moment(found.disclosuresKnownSince)}, when the records begin` : '';
    return h('p', { class: 'empty-note' }, `Nobody has received anything${since}.`);
  }
  return found.recipients.map((recipient) => h('div', { class: 'recipient' },
    h('h3', null, data(recipient.token),
      h('span', { class: 'heading-note' }, ` ${counted(recipient.times, 'time')}, ${counted(recipient.tokenIds.length, 'token')}`)),
    h('ul', null, recipient.details.map((detail) => h('li', null, received(detail))))));
}

/** @param {Api.FoundShown} found */
function footnotes(found) {
  const compared = found.indexComparedAt
    ? `The list of recipients was last compared with the audit journal on ${moment(found.indexComparedAt)}.`
    : `The list of recipients has not been compared with the audit journal yet. ${may('auditProof') ? 'Verify the journal on the Audit page.' : 'An auditor can verify the journal.'}`;
  return h('p', { class: 'note' },
    found.requestsWithoutResult > 0 && `${counted(found.requestsWithoutResult, 'other request')} about this got no details. `,
    found.recipients.length > 0 && found.disclosuresKnownSince && `The records of recipients begin on ${moment(found.disclosuresKnownSince)}. `, compared);
}

/** @param {Api.FoundShown} found */
function sharing(found) {
  if (!found.shared.length) return null;
  return section('Other profiles with the same values',
    h('p', { class: 'note' }, 'They may be the same person’s, or belong to people who share a number or an address. Nothing you do here affects them.'),
    table('Other profiles', ['Profile', 'Has the same'], found.shared.map(({ profileUrl, kind }) => [personLink(profileUrl), kindName(kind)])));
}

/**
 * @param {Api.FoundShown} found
 * @param {() => void} again
 */
function result(found, again) {
  const { subject, profiles, suppression } = found;
  const isValue = subject.kind !== 'profile';
  const makeIt = button('Report', () => attempt(makeIt, () => makeReport(subject.text)));
  const counts = found.held.length
    ? `${counted(found.held.length, 'detail')} in ${counted(profiles.length, 'profile')}`
    : isValue ? `No profile holds this ${kindName(subject.kind)}.` : 'Nobody of this address is on file.';
  return h('article', { class: 'person' },
    h('header', { class: 'person-head' },
      h('div', null, h('h2', { tabindex: '-1' }, value(subject.text)),
        isValue && profiles.length === 1 && h('p', null, personLink(profiles[0])),
        h('p', null, state(found), ' ', h('span', { class: 'note' }, counts))),
      h('div', { class: 'actions' },
        makeIt,
        may('optOuts') && (!suppression.isSuppressed || isValue) && button('Opt out', () => optOut(found, again), { class: !suppression.isSuppressed && 'primary' }),
        may('optOuts') && suppression.isSuppressed && button('Take back the opt-out', () => withdraw(found, again)),
        button('Erase', () => erase(found, again), { class: 'danger' }))),
    isValue && profiles.length > 1 && notice('warn', h('p', null,
      `${counted(profiles.length, 'profile')} hold this ${kindName(subject.kind)}. If different people share it, look for the profile of the one who asks instead.`)),
    found.isShortened && notice('warn', h('p', null,
      'So many profiles hold this that only what the first of them hold is shown, and who received it. What you do here is about all of them.')),
    section('What is held', held(found, again)),
    section('Who received it', recipients(found), footnotes(found)),
    sharing(found));
}

/**
 * Several people whose profiles have parts of a name.
 * @param {Api.PeopleFound} found
 */
const matches = ({ profiles, isComplete }) => h('section', { class: 'person' },
  h('h2', { tabindex: '-1' }, profiles.length ? `${counted(profiles.length, 'profile')} found` : 'Nobody is found'),
  !profiles.length && h('p', null, 'No profile URL has all parts of this name. Type fewer of them, or search for an e-mail address or a phone number.'),
  h('ul', { class: 'plain-list' }, profiles.map((profile) => h('li', null, personLink(profile)))),
  !isComplete && notice('warn', h('p', null, 'These are not all. Type more of the name.')));

/**
 * Whether this is a name: neither a URL, an address nor a number.
 * @param {string} text
 */
const isName = (text) => /\p{L}/u.test(text) && !/[@/]/.test(text);

/**
 * What is found under a text: one person, number or address; or several people of a name.
 * @param {string} text
 * @param {() => void} again
 */
async function find(text, again) {
  const ticket = ticketOfSearch();
  let q = text;
  if (isName(text)) {
    const named = await post('/people/find', { name: text, ticket });
    if (named.profiles.length !== 1 || !named.isComplete) return matches(named);
    [q] = named.profiles;
  }
  return result(await post('/people/search', { q, ticket }), again);
}

/**
 * While nothing can be put on record, people are not shown. They can opt out all the same.
 * @param {{ code: string }} error
 */
const unseen = (error) => (error.code === 'not_on_record' && may('optOuts') && !isName(asked) ? [h('p', null,
  button('Opt out without looking', () => optOutUnseen(asked), { class: 'primary' }))] : []);

export async function people() {
  const wanted = takeWanted();
  const input = h('input', {
    id: 'person', name: 'q', type: 'text', autocomplete: 'off', autocapitalize: 'off', spellcheck: 'false', required: true, maxlength: 2048,
    placeholder: 'https://www.linkedin.com/in/…', 'aria-describedby': 'person-hint', value: wanted || asked,
  });
  const send = h('button', { type: 'submit', class: 'primary' }, 'Search');
  const said = h('p', { class: 'visually-hidden', role: 'status' });
  const caseRow = ticketField({ value: ticketOfSearch(), hint: 'The number of the case, if there is one, such as DSR-17. Never a name, a number or an address.' });
  const ticket = /** @type {HTMLInputElement} */ (caseRow.querySelector('input'));
  const place = h('div', { class: 'search-result' });

  let searches = 0;

  /**
   * Searches for what was typed or, without `focus`, once more for the same. The newest search counts, however late others answer.
   * `isFirst`: what another page had to say stays.
   * @param {{ focus: boolean, isFirst?: boolean }} options
   */
  async function search({ focus, isFirst = false }) {
    if (focus) asked = input.value.trim();
    keepTicket(ticket.value);
    if (!asked) return;
    searches += 1;
    const mine = searches;
    if (focus) {
      if (!isFirst) turnPage();
      // Nobody acts on the person who was there before.
      place.replaceChildren();
    }
    said.textContent = 'Searching…';
    send.setAttribute('aria-disabled', 'true');
    place.classList.add('outdated');
    try {
      const found = await find(asked, () => search({ focus: false }));
      if (mine !== searches) return;
      place.replaceChildren(found);
      said.textContent = 'Found.';
      if (focus) place.querySelector('h2')?.focus();
    } catch (error) {
      if (!error.code) throw error;
      if (mine !== searches) return;
      said.textContent = '';
      place.replaceChildren(problem(error, () => search({ focus })), ...unseen(error));
    } finally {
      if (mine === searches) {
        place.classList.remove('outdated');
        send.removeAttribute('aria-disabled');
      }
    }
  }

  const form = h('form', { class: 'search-form', role: 'search', autocomplete: 'off' },
    h('label', { for: 'person' }, 'Profile URL, e-mail address, phone number or name'),
    h('div', { class: 'field-with-button' }, input, send),
    h('p', { class: 'hint', id: 'person-hint' },
      `Phone numbers with + and country code. A name is looked for in the profile URLs: ada quell finds …/in/ada-quell-1a2b3c. ${isOnRecord() ? 'Every search is on record with your name.' : 'The journal is off: searches are not on record.'}`),
    caseRow);
  form.addEventListener('submit', (event) => { event.preventDefault(); search({ focus: true }); });
  if (wanted) queueMicrotask(() => search({ focus: true, isFirst: true }));
  return [heading('People'), form, said, place];
}
