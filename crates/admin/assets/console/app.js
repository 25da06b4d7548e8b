// @ts-check
// The console: finds out who is there, and shows the pages that they may see.

import { ApiError, OFFLINE } from './api.js';
import { byId, button, data, h } from './dom.js';
import { attempt, problem } from './notices.js';
import { overview } from './pages/overview.js';
import { go, setUp, show, showInstead } from './router.js';
import { enter, loginPage, logOut, may, onLoggedOut, resume, user } from './session.js';

/**
 * A page whose script is loaded when it is first shown.
 * @param {string} name
 * @returns {Page}
 */
const later = (name) => async (here) => {
  const { PAGES } = await import('./pages.js').catch(() => { throw new ApiError('offline', OFFLINE); });
  return PAGES[name](here);
};

/**
 * Address, permission, page, and which entry of the navigation it belongs to.
 * @type {Array<[string, string | null, Page, string]>}
 */
const ROUTES = [
  ['overview', 'overview', overview, 'overview'],
  ['people', 'people', later('people'), 'people'],
  ['people/report', 'people', later('reportPage'), 'people'],
  ['opt-outs', 'optOuts', later('optOuts'), 'opt-outs'],
  ['imports', 'imports', later('imports'), 'imports'],
  ['imports/new', 'imports', later('importNew'), 'imports'],
  ['imports/upload/:id', 'imports', later('importUpload'), 'imports'],
  ['export', 'export', later('exportPage'), 'export'],
  ['retention', 'retention', later('retention'), 'retention'],
  ['tokens', 'tokens', later('tokens'), 'tokens'],
  ['tokens/:id', 'tokens', later('token'), 'tokens'],
  ['usage', 'usage', later('usage'), 'usage'],
  ['audit', 'audit', later('audit'), 'audit'],
  ['audit/recipients', 'audit', later('recipients'), 'audit'],
  ['audit/proof', 'auditProof', later('proof'), 'audit'],
  ['system', 'nodes', later('system'), 'system'],
  ['users', 'users', later('users'), 'users'],
  ['jobs', null, later('jobs'), 'jobs'],
  ['jobs/:id', null, later('jobPage'), 'jobs'],
  ['account', null, later('account'), 'account'],
];

/**
 * The navigation, in groups.
 * @type {Array<Array<[string, string, string | null]>>}
 */
const NAVIGATION = [
  [['overview', 'Overview', 'overview']],
  [['people', 'People', 'people'], ['opt-outs', 'Opt-outs', 'optOuts']],
  [['imports', 'Imports', 'imports'], ['export', 'Export', 'export'], ['retention', 'Retention', 'retention']],
  [['tokens', 'Tokens', 'tokens'], ['usage', 'Usage', 'usage']],
  [['audit', 'Audit', 'audit'], ['jobs', 'Jobs', null]],
  [['system', 'System', 'nodes'], ['users', 'Users', 'users']],
];

function navigation() {
  const list = h('div', { id: 'nav-list', class: 'nav-list' }, NAVIGATION.map((group) => {
    const links = group.filter(([, , permission]) => !permission || may(permission))
      .map(([path, name]) => h('li', null, h('a', { href: `#/${path}`, 'data-nav': path }, name)));
    return links.length > 0 && h('ul', null, links);
  }));
  const menu = button('Menu', () => {
    const isOpen = menu.getAttribute('aria-expanded') !== 'true';
    menu.setAttribute('aria-expanded', String(isOpen));
    list.classList.toggle('is-open', isOpen);
  }, { class: 'menu-button', 'aria-expanded': 'false', 'aria-controls': 'nav-list' });
  return [menu, list];
}

/** @param {Api.SessionUser} user */
function userMenu({ name, role }) {
  const leave = button('Log out', () => attempt(leave, async () => {
    await logOut();
    // Loading the page anew leaves nothing of this session in memory.
    history.replaceState(null, '', './');
    location.reload();
  }), { class: 'quiet' });
  return [
    h('a', { href: '#/account', 'data-nav': 'account', title: name }, data(name)), h('span', { class: 'tag' }, role), leave,
  ];
}

/**
 * Marks the current page in the navigation, and closes the menu of narrow screens.
 * @param {string} [current]
 */
function mark(current) {
  document.querySelectorAll('[data-nav]').forEach((link) => {
    if (link.getAttribute('data-nav') === current) link.setAttribute('aria-current', 'page');
    else link.removeAttribute('aria-current');
  });
  byId('nav').querySelector('.menu-button')?.setAttribute('aria-expanded', 'false');
  byId('nav-list')?.classList.remove('is-open');
}

function showLogin() {
  byId('user-menu').hidden = true;
  byId('nav').hidden = true;
  byId('nav').replaceChildren();
  document.body.classList.add('logged-out');
  showInstead(loginPage(showConsole));
  byId('page').querySelector('input')?.focus();
}

function showConsole() {
  const person = user();
  if (!person) return;
  document.body.classList.remove('logged-out');
  byId('user-menu').replaceChildren(...userMenu(person));
  byId('user-menu').hidden = false;
  byId('nav').replaceChildren(...navigation());
  byId('nav').hidden = person.mustChangePassword;
  if (person.mustChangePassword && location.hash !== '#/account') go(['account']);
  else show();
}

/** A link that works once: `/admin/enter#TOKEN`. The token leaves the address before anything else happens. */
function takeLink() {
  if (!/\/enter$/.test(location.pathname)) return null;
  const link = location.hash.slice(1);
  history.replaceState(null, '', './');
  return link;
}

async function start() {
  document.querySelector('.skip-link')?.addEventListener('click', (event) => { event.preventDefault(); byId('content').focus(); });
  addEventListener('dragover', (event) => event.preventDefault());
  addEventListener('drop', (event) => event.preventDefault());
  setUp(ROUTES, mark);
  onLoggedOut(() => location.reload());
  const link = takeLink();
  try {
    if (link) await enter(link);
    if (link || await resume()) showConsole();
    else showLogin();
  } catch (error) {
    if (!error.code) throw error;
    showLogin();
    byId('flash').replaceChildren(problem(error, link ? null : () => location.reload()));
  }
}

/**
 * Paper has no folds: everything is open while printing.
 * @type {HTMLDetailsElement[]}
 */
let folded = [];
addEventListener('beforeprint', () => {
  folded = [...document.querySelectorAll('details')].filter((details) => !details.open);
  folded.forEach((details) => { details.open = true; });
});
addEventListener('afterprint', () => folded.forEach((details) => { details.open = false; }));

start();
