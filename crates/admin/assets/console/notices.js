// @ts-check
// Messages on a page: what went wrong, what was done, and in which state something is.

import { busy, byId, button, h, nodes } from './dom.js';

/** @type {Record<string, string>} */
const WORDS = {
  offline: 'The service does not answer',
  timeout: 'No answer in time',
  forbidden: 'Your role does not allow this',
  not_found: 'There is no such thing',
  not_on_record: 'This cannot be put on record now, so it is not shown',
  service_unavailable: 'The service cannot do this now',
  too_many_attempts: 'Too many attempts',
  conflict: 'This has changed meanwhile',
};

/** @type {Record<string, string>} */
const HELP = {
  forbidden: 'Ask an administrator if you need it.',
  not_on_record: 'Every look at personal data has a line in the audit journal first, and the journal cannot be written at the moment. Opt-outs still work. Tell whoever runs the server.',
};

/**
 * A box with what went wrong and, if `retry` is given, a button.
 * @param {{ code: string, message: string }} error
 * @param {(() => unknown) | null} [retry]
 */
export function problem(error, retry) {
  return h('section', { class: 'problem', role: 'alert' },
    h('h2', null, WORDS[error.code] ?? 'That did not work'),
    h('p', null, error.message),
    HELP[error.code] && h('p', null, HELP[error.code]),
    retry && h('p', null, button('Try again', retry)));
}

/**
 * A box that says something. `tone`: good, warn, bad or none.
 * @param {Tone | null} tone
 * @param {...Content} content
 */
export const notice = (tone, ...content) => h('div', { class: `notice ${tone ?? ''}` }, content);

/**
 * A word with a colour and a mark, so that it can be told apart without the colour.
 * @param {Tone} tone
 * @param {string} text
 */
export function badge(tone, text) {
  const mark = { good: '✓', warn: '!', bad: '✕', none: '–', busy: '…' }[tone];
  return h('span', { class: `badge ${tone}` }, h('span', { 'aria-hidden': 'true' }, `${mark} `), text);
}

/** @type {HTMLElement | null} */
let next = null;

/** @param {Content} content */
const said = (content) => h('div', { class: 'notice good' }, h('p', null, content));

/**
 * Says at the top of this page what was done. Screen readers read it out. It stays until the next page.
 * @param {...Content} content
 */
export const flash = (...content) => byId('flash').replaceChildren(said(content));

/**
 * The same, at the top of the page that is shown next.
 * @param {...Content} content
 */
export function flashNext(...content) { next = said(content); }

/** Begins a page: with what `flashNext` had to say, or nothing. */
export function turnPage() {
  byId('flash').replaceChildren(...(next ? [next] : []));
  next = null;
}

/**
 * Does the work of a button. What goes wrong is said at the top of the page.
 * @template Result
 * @param {Element} element
 * @param {() => Promise<Result>} work
 */
export const attempt = (element, work) => busy(element, async () => {
  try {
    return await work();
  } catch (error) {
    if (!error.code) throw error;
    byId('flash').replaceChildren(problem(error));
    scrollTo(0, 0);
    return undefined;
  }
});

/**
 * The title of a page, with buttons beside it.
 * @param {Content} title
 * @param {...Content} actions
 */
export const heading = (title, ...actions) => h('div', { class: 'page-head' },
  h('h1', { tabindex: '-1' }, title), nodes(actions).length > 0 && h('div', { class: 'actions' }, actions));

/**
 * A part of a page with a heading.
 * @param {string} title
 * @param {...Content} content
 */
export function section(title, ...content) {
  return h('section', { class: 'page-section' }, h('h2', null, title), content);
}
