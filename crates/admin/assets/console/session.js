// @ts-check
// Who is logged in, and logging in: as a page at first, as a dialog over the page when the session has ended meanwhile.

import * as api from './api.js';
import { busy, h, newId } from './dom.js';
import { textField, valuesOf } from './fields.js';

/** @type {Api.SessionShown | null} */
let session = null;
/** @type {Promise<boolean> | null} */
let asking = null;
let timer = 0;
let toLoginPage = () => {};

/** The user: name, role, and whether a second factor is on. */
export const user = () => session?.user ?? null;

/**
 * Whether the user's role has a permission. The service checks it again with every call.
 * @param {string} permission
 */
export const may = (permission) => session?.permissions.includes(permission) ?? false;

/** Whether what the user looks at is put on record. */
export const isOnRecord = () => session?.isOnRecord ?? true;

/** @param {Api.SessionShown} answer */
function begin(answer) {
  session = answer;
  api.setCsrfToken(answer.csrfToken);
  watchEnd(answer);
}

/**
 * Looks again when the session should have ended, so that nothing personal stays on a screen that nobody uses.
 * @param {Api.SessionShown} current
 */
function watchEnd(current) {
  clearTimeout(timer);
  const end = Math.min(Date.parse(current.idleEndsAt), Date.parse(current.endsAt));
  const wait = Math.min(Math.max(end - Date.now() + 1000, 5000), 2 ** 31 - 1);
  timer = setTimeout(async () => {
    try {
      begin(await api.get('/session', { quiet: true }));
    } catch (error) {
      if (error.status === 401) askAgain();
      else if (session) watchEnd(session);
    }
  }, wait);
}

/** What to do before anybody can log in. */
let firstStep = '';

/** Finds out who is logged in. Returns false if nobody is. */
export async function resume() {
  try {
    begin(await api.get('/session', { quiet: true }));
    return true;
  } catch (error) {
    if (error.status !== 401) throw error;
    firstStep = error.code === 'no_user' ? error.message : '';
    return false;
  }
}

/**
 * Logs in with a link that works once.
 * @param {string} link
 */
export async function enter(link) {
  begin(await api.post('/session/link', { link }, { quiet: true }));
}

export async function logOut() {
  try {
    await api.remove('/session', undefined, { quiet: true });
  } catch (error) {
    if (error.status !== 401) throw error;
  }
  clearTimeout(timer);
  session = null;
  api.setCsrfToken(null);
}

/**
 * The form to log in. `name`: fixed if somebody comes back. `done` is called when it worked.
 * @param {{ name?: string, done: () => void }} options
 */
function loginForm({ name, done }) {
  const failed = h('p', { class: 'error-text', role: 'alert' });
  const code = h('div', { hidden: true }, textField('code', 'Code', {
    hint: 'Six digits, from the authenticator app on your phone.', inputmode: 'numeric', autocomplete: 'one-time-code', maxlength: 6,
    pattern: '[0-9]{6}',
  }));
  const send = h('button', { type: 'submit', class: 'primary' }, 'Log in');
  const form = h('form', { class: 'login-form' },
    textField('name', 'Name', { autocomplete: 'username', required: true, value: name, readonly: Boolean(name) }),
    textField('password', 'Password', { type: 'password', autocomplete: 'current-password', required: true }),
    code, failed, h('div', { class: 'actions' }, send));
  form.addEventListener('submit', (event) => {
    event.preventDefault();
    busy(send, async () => {
      failed.textContent = '';
      try {
        begin(await api.post('/session', /** @type {Api.Login} */ (valuesOf(form)), { quiet: true }));
        done();
      } catch (error) {
        if (error.code === 'code_needed') {
          const isFirst = code.hidden;
          code.hidden = false;
          const input = /** @type {HTMLInputElement} */ (code.querySelector('input'));
          input.required = true;
          input.value = '';
          input.focus();
          if (isFirst) return;
        }
        failed.textContent = error.retryAfter ? `${error.message} Try again in ${error.retryAfter} seconds.` : error.message;
      }
    });
  });
  return form;
}

/**
 * The page for somebody who is not logged in.
 * @param {() => void} done
 */
export function loginPage(done) {
  return h('section', { class: 'login-page' },
    h('h1', { tabindex: '-1' }, 'Log in'),
    h('p', { class: 'note' }, 'To the console of this contact lookup service. What you look at and change here is on record with your name, unless the operator has switched the journal off.'),
    firstStep && h('p', { class: 'notice warn' }, firstStep),
    loginForm({ done }));
}

/**
 * What to do when the user, asked to log in again, does not want to.
 * @param {() => void} show
 */
export const onLoggedOut = (show) => { toLoginPage = show; };

/** Asks to log in again, over a covered page, so that nothing typed is lost. Returns whether the same user is back. */
function askAgain() {
  if (!session) return Promise.resolve(false);
  const { name } = session.user;
  asking ??= new Promise((resolve) => {
    const id = newId('dialog');
    const back = () => box.close('back');
    const other = h('button', { type: 'button', class: 'quiet at-edge', onclick: () => box.close() }, 'Log in as somebody else');
    const box = h('dialog', { class: 'covers-page', 'aria-labelledby': id },
      h('h2', { id }, 'Your session has ended'),
      h('p', null, 'Log in again to go on where you were. What you have typed is still there.'),
      loginForm({ name, done: back }), h('p', { class: 'login-other' }, other));
    box.addEventListener('cancel', (event) => event.preventDefault());
    box.addEventListener('close', () => {
      const isBack = box.returnValue === 'back';
      box.remove();
      asking = null;
      if (!isBack) { session = null; toLoginPage(); }
      resolve(isBack);
    });
    document.body.append(box);
    box.showModal();
    /** @type {HTMLInputElement} */ (box.querySelector('input[name=password]')).focus();
  });
  return asking;
}

/** Another tab has begun a new session: goes on with it if it is the same user's. */
async function takeOver() {
  const before = session?.user.name;
  if (!(await resume())) return askAgain();
  if (user()?.name === before) return true;
  location.reload();
  return false;
}

api.recoverWith({ loggedOut: askAgain, sessionChanged: takeOver });
