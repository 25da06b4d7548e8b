// @ts-check
// A search for somebody that another page asks for. It is kept in memory only: in no address, no history and no log.

import { go } from '../router.js';

let wanted = '';

/**
 * Opens the page People with a search.
 * @param {string} text
 */
export function lookFor(text) {
  wanted = text;
  go(['people']);
}

/** What to search for, once. */
export function takeWanted() {
  const text = wanted;
  wanted = '';
  return text;
}
