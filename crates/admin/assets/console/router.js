// @ts-check
// Hash routes: which page an address means, and showing it.

import { byId, h, nodes } from './dom.js';
import { problem, turnPage } from './notices.js';
import { may, user } from './session.js';

const SAY_LOADING_AFTER_MS = 200;

/** @typedef {{ parts: string[], permission: string | null, page: Page, nav: string }} Route */

/** @type {Route[]} */
let routes = [];
let shown = 0;
let leaving = new AbortController();
/** @type {(nav?: string) => void} */
let afterShow = () => {};

/**
 * `table`: [pattern, permission or null, page, name in the navigation]. A part of a pattern that begins with `:` is a parameter.
 * @param {Array<[string, string | null, Page, string]>} table
 * @param {(nav?: string) => void} after
 */
export function setUp(table, after) {
  routes = table.map(([pattern, permission, page, nav]) => ({ parts: pattern.split('/'), permission, page, nav }));
  afterShow = after;
  addEventListener('hashchange', () => { if (user()) show(); });
}

/**
 * Splits `#/audit?since=30d` into its path and its query.
 * @param {string} hash
 */
export function parse(hash) {
  const [path, query = ''] = hash.replace(/^#\/?/, '').split('?');
  return { parts: path.split('/').filter(Boolean).map(decode), query: new URLSearchParams(query) };
}

/** @param {string} text */
function decode(text) {
  try { return decodeURIComponent(text); } catch { return text; }
}

/**
 * The address of a page.
 * @param {string[]} parts
 * @param {Record<string, any>} [query]
 */
export function href(parts, query = {}) {
  const kept = Object.entries(query).filter(([, text]) => text !== undefined && text !== null && text !== '');
  const search = new URLSearchParams(kept).toString();
  return `#/${parts.map(encodeURIComponent).join('/')}${search && `?${search}`}`;
}

/**
 * Opens a page; shows it again if it is open already.
 * @param {string[]} parts
 * @param {Record<string, any>} [query]
 */
export function go(parts, query) {
  const to = href(parts, query);
  if (location.hash === to) show();
  else location.hash = to;
}

/** @param {string[]} parts */
function match(parts) {
  for (const route of routes) {
    if (route.parts.length !== parts.length) continue;
    /** @type {Record<string, string>} */
    const params = {};
    const fits = route.parts.every((part, i) => {
      if (!part.startsWith(':')) return part === parts[i];
      params[part.slice(1)] = parts[i];
      return true;
    });
    if (fits) return { ...route, params };
  }
  return null;
}

/**
 * Puts content on the page and the focus on its title, so that a screen reader begins there.
 * @param {Content} content
 * @param {{ focus: boolean, nav?: string }} options
 */
function showContent(content, { focus, nav }) {
  byId('page').replaceChildren(...nodes(content));
  const title = byId('page').querySelector('h1');
  document.title = title ? `${title.textContent} · contactd console` : 'contactd console';
  if (focus) {
    scrollTo(0, 0);
    (title ?? byId('content')).focus({ preventScroll: true });
  }
  afterShow(nav);
}

const missing = () => [
  h('h1', { tabindex: '-1' }, 'There is no such page'),
  h('p', null, 'The address is wrong, or it is from another version. ', h('a', { href: '#/overview' }, 'Go to the overview')),
];

const refused = () => [
  h('h1', { tabindex: '-1' }, 'Your role does not allow this'),
  h('p', null, 'Ask an administrator if you need it. ', h('a', { href: '#/overview' }, 'Go to the overview')),
];

/** Shows the page of the current address. Without `focus`, a page is only brought up to date. */
export async function show({ focus = true } = {}) {
  const place = parse(location.hash);
  const route = match(place.parts.length ? place.parts : ['overview']);
  leaving.abort();
  leaving = new AbortController();
  shown += 1;
  const mine = shown;
  const { signal } = leaving;
  document.querySelectorAll('dialog').forEach((dialog) => { if (!dialog.matches('.covers-page')) dialog.close(); });
  turnPage();
  if (!route) { showContent(missing(), { focus }); return; }
  if (route.permission && !may(route.permission)) { showContent(refused(), { focus, nav: route.nav }); return; }
  const slow = setTimeout(() => {
    if (mine === shown) byId('page').replaceChildren(h('h1', { class: 'visually-hidden' }, 'Loading'), h('p', { class: 'loading', role: 'status' }, 'Loading…'));
  }, SAY_LOADING_AFTER_MS);
  try {
    const here = { params: route.params, query: place.query, signal, nav: route.nav, refresh: () => show({ focus: false }) };
    const content = await route.page(here);
    if (mine === shown) showContent(content, { focus, nav: here.nav });
  } catch (error) {
    if (mine !== shown || signal.aborted) return;
    if (!error.code) console.error(error);
    const failed = error.code ? error : { code: 'fault', message: 'This page has a fault. Reload it; if that does not help, report it.' };
    showContent(h('div', null, h('h1', { tabindex: '-1', class: 'visually-hidden' }, 'Not shown'), problem(failed, () => show())),
      { focus, nav: route.nav });
  } finally {
    clearTimeout(slow);
  }
}

/**
 * Stops what the current page is doing, and shows something else.
 * @param {Content} content
 */
export function showInstead(content) {
  leaving.abort();
  shown += 1;
  turnPage();
  showContent(content, { focus: true });
}
