// @ts-check
// A search for somebody that another page asks for, and the case that it is for. They are kept in memory only: in no address, no
// history and no log.

import { h, value } from '../dom.js';
import { ticketField } from '../fields.js';
import { go } from '../router.js';

let wanted = '';
let ticket = '';

/** The case that people are looked for, or nothing. */
export const ticketOfSearch = () => ticket || undefined;

/** @param {string} text */
export const keepTicket = (text) => { ticket = text.trim(); };

/** The field for the case, with the one that the person was looked for. */
export const caseField = () => ticketField({ value: ticket });

/**
 * Opens the page People with a search.
 * @param {string} text
 */
export function lookFor(text) {
  wanted = text;
  go(['people']);
}

/**
 * A profile URL that leads to what is held about the person, in the console.
 * @param {string} profileUrl
 * @param {string} [text]
 */
export const personLink = (profileUrl, text) => h('a', {
  'aria-label': text && `${text}: ${profileUrl}`,
  href: '#/people', onclick: (/** @type {Event} */ event) => { event.preventDefault(); lookFor(profileUrl); },
}, text ?? value(profileUrl));

/** What to search for, once. */
export function takeWanted() {
  const text = wanted;
  wanted = '';
  return text;
}
