// @ts-check
// The access report: a page to print or to save, written for the person whom it is about.

import { post, reportAsHtml } from '../api.js';
import { button, data, h, save, value } from '../dom.js';
import { capital, counted, day, kindName, moment, number } from '../format.js';
import { attempt, flash, flashNext } from '../notices.js';
import { go } from '../router.js';
import { table } from '../table.js';
import { lookFor, ticketOfSearch } from './people-search.js';
import { erase } from './person-dialogs.js';

const MAX_LISTED_DISCLOSURES = 50;

/** @type {{ report: Api.ReportShown, ticket?: string } | null} */
let made = null;

/**
 * What one recipient received, in words.
 * @param {Api.ReceivedShown} detail
 */
export function received({ operation, value: text, isValueRecorded, times, firstAt, lastAt }) {
  const what = text ? value(text) : isValueRecorded ? `a ${kindName(operation)} that is no longer held` : `a ${kindName(operation)}`;
  const when = times === 1 ? `once, on ${moment(firstAt)}` : `${number(times)} times, first on ${moment(firstAt)}, last on ${moment(lastAt)}`;
  return [what, ': ', when];
}

/**
 * Makes the report about a person, a number or an address, and opens the page with it. It is kept in memory only.
 * @param {string} q
 */
export async function makeReport(q) {
  const ticket = ticketOfSearch();
  made = { report: await post('/people/report', { q, ticket }), ticket };
  go(['people', 'report']);
}

/** What a saved report is called: by its case, never by the person. */
const fileName = (/** @type {string | undefined} */ ticket) => `${['access-report', ticket?.replace(/[^\w.-]/g, '-')].filter(Boolean).join('-')}.html`;

/** @param {Api.ReportShown} report */
function state({ subject, suppression, held }) {
  const { isSuppressed, since, isOfTheValueOnly } = suppression;
  const from = since ? `, since ${moment(since)}` : '';
  if (isSuppressed && isOfTheValueOnly) {
    return [h('strong', null, value(subject.text), ' is opted out'),
      `${from}. We have not given it to anyone since then, and we will not, even if we receive it again under another profile.`];
  }
  if (isSuppressed) return [h('strong', null, 'You have opted out'),
    `${from}. We have not given your details to anyone since then, and we will not, whatever others send us later.`];
  if (isOfTheValueOnly) return [h('strong', null, value(subject.text), ' is not opted out.'),
    ' Would you like it to be? Just ask us, and from that moment on we will not give it to anyone.'];
  if (held.some((detail) => detail.isSuppressed)) return [h('strong', null, 'Some of your details are opted out'),
    ', and we do not give those to anyone; see below. Would you like to opt out completely? Just ask us.'];
  return [h('strong', null, 'You have not opted out.'),
    ' Would you like to? Just ask us, and from that moment on we will not give your details to anyone.'];
}

/** @param {Api.HeldShown} detail */
function until(detail) {
  if (detail.keptForUndoUntil) return day(detail.keptForUndoUntil);
  if (!detail.expiresAt) return 'no end date is set';
  return detail.isExpired ? `${day(detail.expiresAt)}. This date has passed: we no longer give it to anyone, and we will delete it` : day(detail.expiresAt);
}

/** @param {Api.HeldShown} detail */
function given(detail) {
  if (detail.keptForUndoUntil) return 'no, it is a former entry that we keep only to be able to correct a mistake';
  if (detail.isSuppressed) return 'no, because of an opt-out';
  if (detail.label === 'work') return 'no, we only give out personal details';
  return null;
}

/**
 * @param {Api.HeldShown} detail
 * @param {boolean} withProfile
 */
function heldDetail(detail, withProfile) {
  /** @type {Array<[string, Content] | false>} */
  const lines = [
    withProfile && ['Profile', value(detail.profileUrl)],
    ['Where we got it', data(detail.source)],
    ['Last known to be correct', detail.observedAt ? day(detail.observedAt) : 'not known'],
    ['Why we may hold it', detail.basis ? data(detail.basis) : 'not recorded'],
    ['We keep it until', until(detail)],
    given(detail) !== null && ['Given to others', given(detail)],
  ];
  return h('dl', { class: 'report-detail' },
    h('div', null, h('dt', null, `${capital(detail.label)} ${kindName(detail.kind)}`),
      h('dd', null, h('strong', null, value(detail.value)))),
    lines.map((line) => line && h('div', null, h('dt', null, line[0]), h('dd', null, line[1]))));
}

/** @param {Api.ReportShown} report */
function held(report) {
  if (!report.held.length) return h('p', null, 'We do not hold a phone number or an e-mail address for you.');
  const withProfile = report.profiles.length > 1 && !report.isAboutTheValueOnly;
  return [
    report.isAboutTheValueOnly && h('p', null,
      `We hold this in ${report.profiles.length} different profiles, so this page is only about this one detail. To see everything we hold about you, please ask us again with the web address of your profile.`),
    report.held.map((detail) => heldDetail(detail, withProfile)),
  ];
}

/** @param {Api.ReportShown} report */
function disclosures(report) {
  const since = report.disclosuresKnownSince;
  const of = report.disclosuresAreOf;
  if (!report.recipients.length && of === 'unknown') {
    return h('p', null,
      'We cannot tell from this alone, because we hold it in no profile now. Please ask us again with the web address of your profile.');
  }
  if (!report.recipients.length) {
    const what = of === 'profile' ? 'your phone number or e-mail address from us' : 'anything from us of the profile in which we hold it now';
    return h('p', null, since ? `Nobody has received ${what} since ${moment(since)}, when our records begin.` : `We have no records of who received ${what}.`);
  }
  return [
    report.recipients.map((recipient) => h('div', { class: 'recipient' }, h('h3', null, data(recipient.token)),
      h('ul', null, recipient.details.map((detail) => h('li', null, received(detail)))))),
    h('h3', null, 'Each time'),
    report.disclosures.length > MAX_LISTED_DISCLOSURES
      ? h('p', null, `${counted(report.disclosures.length, 'time')} in total. Would you like the list of each time? Just ask us.`)
      : table('Each time', ['When', 'What', 'Recipient'], report.disclosures.map((one) => [
        moment(one.time), [capital(kindName(one.operation)), one.value && [' ', value(one.value)]], data(one.token)])),
    since && h('p', { class: 'note' }, `Our records of recipients begin on ${moment(since)}.`),
  ];
}

export async function reportPage() {
  if (!made) {
    return [h('h1', { tabindex: '-1' }, 'Access report'),
      h('p', null, 'A report is shown once, when it is made, and is not kept. ', h('a', { href: '#/people' }, 'Look for the person'),
        ' and make it again.')];
  }
  const { report, ticket } = made;
  const { text } = report.subject;
  const back = () => lookFor(text);
  const saveIt = button('Save as a file', () => attempt(saveIt, async () => {
    const page = await reportAsHtml({ q: text, ticket });
    save(new Blob([page], { type: 'text/html' }), fileName(ticket));
    saveIt.classList.remove('primary');
    flash(`The report is saved as ${fileName(ticket)}. It contains personal data: delete it when it is sent.`);
  }), { class: 'primary' });
  return [
    h('p', { class: 'actions no-print' }, saveIt, button('Print', () => print()), button('Back to the person', back),
      button('Erase', () => erase(report, back, flashNext), { class: 'danger' })),
    h('p', { class: 'note no-print' }, 'Check the identity of the person who asks before you send it.'),
    h('article', { class: 'report' },
      h('h1', { tabindex: '-1' }, 'What we hold about you, and who received it'),
      h('p', { class: 'note' }, 'About ', value(report.subject.text), `, as of ${moment(report.generatedAt)}`),
      h('p', { class: 'opt-out-state' }, state(report)),
      h('h2', null, 'What we hold'), held(report),
      h('h2', null, 'Who received it'), disclosures(report),
      report.requestsWithoutResult > 0 && h('p', null,
        `Other requests about you, to which we gave no details: ${report.requestsWithoutResult}.`)),
  ];
}
