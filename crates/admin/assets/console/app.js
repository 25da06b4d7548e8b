// @ts-check
// The console: finds out who is there, and shows the pages that they may see.

import { byId, button, data, h } from './dom.js';
import { attempt, problem } from './notices.js';
import { account } from './pages/account.js';
import { audit, recipients } from './pages/audit.js';
import { exportPage } from './pages/export.js';
import { importNew, importUpload } from './pages/import-file.js';
import { imports } from './pages/imports.js';
import { jobPage, jobs } from './pages/jobs.js';
import { optOuts } from './pages/opt-outs.js';
import { overview } from './pages/overview.js';
import { people } from './pages/people.js';
import { proof } from './pages/proof.js';
import { reportPage } from './pages/report.js';
import { retention } from './pages/retention.js';
import { system } from './pages/system.js';
import { token, tokens } from './pages/tokens.js';
import { usage } from './pages/usage.js';
import { users } from './pages/users.js';
import { go, setUp, show, showInstead } from './router.js';
import { enter, loginPage, logOut, may, onLoggedOut, resume, user } from './session.js';

/**
 * Address, permission, page, and which entry of the navigation it belongs to.
 * @type {Array<[string, string | null, Page, string]>}
 */
const ROUTES = [
  ['overview', 'overview', overview, 'overview'],
  ['people', 'people', people, 'people'],
  ['people/report', 'people', reportPage, 'people'],
  ['opt-outs', 'optOuts', optOuts, 'opt-outs'],
  ['imports', 'imports', imports, 'imports'],
  ['imports/new', 'imports', importNew, 'imports'],
  ['imports/upload/:id', 'imports', importUpload, 'imports'],
  ['export', 'export', exportPage, 'export'],
  ['retention', 'retention', retention, 'retention'],
  ['tokens', 'tokens', tokens, 'tokens'],
  ['tokens/:id', 'tokens', token, 'tokens'],
  ['usage', 'usage', usage, 'usage'],
  ['audit', 'audit', audit, 'audit'],
  ['audit/recipients', 'audit', recipients, 'audit'],
  ['audit/proof', 'auditProof', proof, 'audit'],
  ['system', 'nodes', system, 'system'],
  ['users', 'users', users, 'users'],
  ['jobs', null, jobs, 'jobs'],
  ['jobs/:id', null, jobPage, 'jobs'],
  ['account', null, account, 'account'],
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
    h('a', { href: '#/account', 'data-nav': 'account' }, data(name)), h('span', { class: 'tag' }, role), leave,
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
