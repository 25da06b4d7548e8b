// @ts-check
// Your account: password and second factor.

import { get, post, remove } from '../api.js';
import { copyButton } from '../copy-button.js';
import { ask } from '../dialog.js';
import { button, data, h } from '../dom.js';
import { textField, valuesOf } from '../fields.js';
import { moment } from '../format.js';
import { attempt, badge, flashNext, heading, notice, section } from '../notices.js';
import { qrCode } from '../qr.js';
import { resume, user } from '../session.js';
import { facts } from '../table.js';

const MIN_PASSWORD_LENGTH = 12;

/** @param {() => void} refresh */
function passwordForm(refresh) {
  const failed = h('p', { class: 'error-text', role: 'alert' });
  const send = h('button', { type: 'submit', class: 'primary' }, 'Change the password');
  const again = textField('again', 'New password again', { type: 'password', autocomplete: 'new-password', required: true });
  const form = h('form', { class: 'panel' },
    textField('old', 'Password now', { type: 'password', autocomplete: 'current-password', required: true }),
    textField('new', 'New password',
      { type: 'password', autocomplete: 'new-password', required: true, minlength: MIN_PASSWORD_LENGTH,
      hint: `At least ${MIN_PASSWORD_LENGTH} characters. Several words are good, and easy to remember.` }),
    again, failed,
    h('div', { class: 'actions' }, send));
  form.addEventListener('submit', (event) => {
    event.preventDefault();
    const { old, new: chosen, again: repeated } = valuesOf(form);
    failed.textContent = '';
    if (chosen !== repeated) { failed.textContent = 'The two new passwords are not the same.'; again.querySelector('input')?.focus(); return; }
    attempt(send, async () => {
      try {
        await post('/me/password', { old, new: chosen });
      } catch (error) {
        if (error.status !== 400 && error.status !== 401) throw error;
        failed.textContent = error.message;
        return;
      }
      form.reset();
      if (user()?.mustChangePassword) { location.hash = '#/overview'; location.reload(); return; }
      await resume();
      flashNext('Your password is changed. Your other sessions have ended.');
      refresh();
    });
  });
  return form;
}

/** @param {() => void} refresh */
async function setUpTotp(refresh) {
  const { secret, uri } = await post('/me/totp');
  const code = h('code', { class: 'key-text' }, secret.replace(/(.{4})(?=.)/g, '$1 '));
  const answer = await ask({
    title: 'Set up a second factor',
    wide: true,
    intro: [
      h('ol', null,
        h('li', null, 'Open an authenticator app on your phone and scan this picture.'),
        h('li', null, 'Type the six digits that it shows, and your password, below.')),
      h('div', { class: 'qr-code' }, qrCode(uri, 'QR code of the key for the authenticator app')),
      h('p', { class: 'note' }, 'If you cannot scan it, type this key into the app:'),
      h('p', { class: 'key-with-button' }, code, copyButton(code, 'the key')),
    ],
    fields: [textField('code', 'Code',
      { required: true, inputmode: 'numeric', autocomplete: 'one-time-code', maxlength: 6, pattern: '[0-9]{6}', title: 'Six digits' }),
    textField('password', 'Password', { type: 'password', autocomplete: 'current-password', required: true })],
    confirm: 'Switch it on',
    act: ({ code: typed, password }) => post('/me/totp/confirm', { code: typed, password }),
  });
  if (!answer) return;
  flashNext('The second factor is on. You need a code from your phone from now on.');
  refresh();
}

/** @param {() => void} refresh */
async function removeTotp(refresh) {
  const answer = await ask({
    title: 'Switch off the second factor',
    danger: true,
    intro: h('p', null, 'After this, your password alone is enough to log in.'),
    fields: [textField('password', 'Password', { type: 'password', autocomplete: 'current-password', required: true })],
    confirm: 'Switch it off',
    act: ({ password }) => remove('/me/totp', { password }),
  });
  if (!answer) return;
  flashNext('The second factor is off.');
  refresh();
}

/** @param {PageInput} input */
export async function account({ signal, refresh }) {
  const me = await get('/me', { signal });
  const setUp = button('Set up', () => attempt(setUp, () => setUpTotp(refresh)), { class: 'primary' });
  return [
    heading('Your account'),
    me.mustChangePassword && notice('warn',
      h('p', null, h('strong', null, 'Choose your own password first.'),
      ' You logged in with one that somebody else has seen. Everything else waits until then.')),
    facts([['Name', data(me.name)], ['Role', me.role], ['Session ends', moment(me.sessionEndsAt)],
      ['Last logged in', me.lastLoginAt && moment(me.lastLoginAt)]]),
    section('Password', passwordForm(refresh)),
    !me.mustChangePassword && section('Second factor',
      h('p', null, me.hasTotp ? badge('good', 'on') : badge('warn', 'off')),
      h('p', null, 'A code from an app on your phone, asked for after the password. Somebody who learns your password cannot log in without it.'),
      h('p', null, me.hasTotp ? button('Switch it off', () => removeTotp(refresh)) : setUp)),
  ];
}
