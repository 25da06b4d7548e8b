// @ts-check
// Users: who may use the console, and with which role; tokens for programs that use the admin API.

import { get, post } from '../api.js';
import { ask, showOnce } from '../dialog.js';
import { button, data, h } from '../dom.js';
import { radioField, selectField, textField } from '../fields.js';
import { day, moment } from '../format.js';
import { badge, flashNext, heading, section } from '../notices.js';
import { may, user as me } from '../session.js';
import { table } from '../table.js';

const ROLES = [
  { value: 'operator', label: 'Operator', hint: 'Imports and tokens. Sees no personal data but the files they upload, and cannot export.' },
  { value: 'privacy', label: 'Privacy', hint: 'People: reports, opt-outs, corrections, erasure. Reads the journal.' },
  { value: 'auditor', label: 'Auditor', hint: 'The journal, its proof, and usage. Changes nothing.' },
  { value: 'admin', label: 'Administrator', hint: 'Everything, also exports and users.' },
];

/** @param {string} role */
const roleName = (role) => ROLES.find(({ value }) => value === role)?.label ?? role;

/**
 * @param {string} name
 * @param {string} password
 */
const shownPassword = (name, password) => showOnce({
  title: `Password for ${name}`,
  intro: h('p', null, h('strong', null, 'This is shown only once.'),
    ' Give it to the person in a safe way. They choose their own when they log in for the first time.'),
  secret: password,
  what: 'the password',
});

/** @param {() => void} refresh */
async function create(refresh) {
  const answer = await ask({
    title: 'Add a user',
    wide: true,
    intro: h('p', null, 'What a user does is on record under this name.'),
    fields: [
      textField('name', 'Name', { required: true, pattern: '[a-z0-9][a-z0-9._\\-]*', maxlength: 64,
        title: 'Small letters, digits, and . _ -', hint: 'Small letters, digits, and . _ -' }),
      radioField('role', 'Role', ROLES, 'operator'),
    ],
    confirm: 'Add',
    act: ({ name, role }) => post('/users', { name, role }),
  });
  if (!answer) return;
  await shownPassword(answer.result.name, answer.result.password);
  refresh();
}

/**
 * Asks for a yes, does it, and says so.
 * @param {Question<unknown> & { done: string }} question
 * @param {() => void} refresh
 */
async function askAndDo({ done, ...question }, refresh) {
  if (!(await ask(question))) return;
  flashNext(done);
  refresh();
}

/**
 * @param {Api.UserShown} of
 * @param {() => void} refresh
 */
const disable = (of, refresh) => askAndDo({
  title: `Disable ${of.name}`, danger: true, confirm: 'Disable',
  done: `${of.name} is disabled.`,
  intro: h('p', null, 'Their sessions end at once, their running jobs are stopped, and they cannot log in any more. Admin tokens that are theirs are refused until another administrator takes them over. What they did stays on record. You can enable them again.'),
  act: () => post('/users/{name}/disable', {}, { path: { name: of.name } }),
}, refresh);

/**
 * @param {Api.UserShown} of
 * @param {() => void} refresh
 */
const enable = (of, refresh) => askAndDo({
  title: `Enable ${of.name}`, confirm: 'Enable', done: `${of.name} can log in again.`,
  intro: h('p', null, 'They can log in again with the password that they had.'),
  act: () => post('/users/{name}/enable', {}, { path: { name: of.name } }),
}, refresh);

/**
 * @param {Api.UserShown} of
 * @param {() => void} refresh
 */
const changeRole = (of, refresh) => askAndDo({
  title: `Change the role of ${of.name}`, confirm: 'Change',
  done: `The role of ${of.name} is changed.`,
  intro: h('p', null, 'Their sessions end, and they log in again with the new role. Running jobs that the new role may not start are stopped. Admin tokens of who is no administrator any more are refused.'),
  fields: [radioField('role', 'Role', ROLES, of.role)],
  act: ({ role }) => post('/users/{name}/role', { role }, { path: { name: of.name } }),
}, refresh);

/**
 * @param {Api.UserShown} of
 * @param {() => void} refresh
 */
const resetTotp = (of, refresh) => askAndDo({
  title: `Remove the second factor of ${of.name}`, danger: true, confirm: 'Remove it',
  done: `${of.name} logs in without a code now.`,
  intro: h('p', null, 'Do this if they have lost their phone. They log in with their password alone until they set up a new one. Make sure that it is really them who ask.'),
  act: () => post('/users/{name}/reset-totp', {}, { path: { name: of.name } }),
}, refresh);

/**
 * @param {Api.UserShown} of
 * @param {() => void} refresh
 */
async function newPassword(of, refresh) {
  const answer = await ask({
    title: `New password for ${of.name}`, danger: true, confirm: 'Make a new password',
    intro: h('p', null, 'The old password stops working at once, and their sessions end. The new one is shown to you once.'),
    act: () => post('/users/{name}/password', {}, { path: { name: of.name } }),
  });
  if (!answer) return;
  await shownPassword(of.name, answer.result.password);
  refresh();
}

/**
 * @param {Api.UserShown} of
 * @param {() => void} refresh
 */
function actions(of, refresh) {
  /**
   * @param {string} text
   * @param {(of: Api.UserShown, refresh: () => void) => unknown} act
   */
  const quiet = (text, act) => button(text, () => act(of, refresh), { class: 'quiet', 'aria-label': `${text}: ${of.name}` });
  if (of.name === me()?.name) return h('a', { href: '#/account' }, 'Your account');
  return h('span', { class: 'row-actions' },
    of.disabledAt ? quiet('Enable', enable) : [quiet('Role', changeRole), quiet('Password', newPassword),
    of.hasTotp && quiet('Second factor', resetTotp), quiet('Disable', disable)]);
}

/** @param {() => void} refresh */
async function createAdminToken(refresh) {
  const answer = await ask({
    title: 'Create an admin token',
    wide: true,
    intro: h('p', null, 'A program with this token can do through the admin API what a user with this role can do here. What it does is on record under its name.'),
    fields: [
      textField('name', 'Name', { required: true, maxlength: 100, hint: 'The program that uses it, such as nightly-import. A name is given once.' }),
      radioField('role', 'Role', ROLES, 'operator'),
      selectField('expires', 'Ends after', [['30d', '30 days'], ['90d', '90 days'], ['365d', 'one year']], { chosen: '90d' }),
    ],
    confirm: 'Create',
    act: ({ name, role, expires }) => post('/admin-tokens', { name, role, expires }),
  });
  if (!answer) return;
  await showOnce({
    title: `Admin token for ${answer.result.name}`,
    intro: h('p', null, h('strong', null, 'This is shown only once.'),
      ' Store it where the program reads its secrets. Only a hash of it is kept here.'),
    secret: answer.result.token,
    what: 'the admin token',
  });
  refresh();
}

/**
 * @param {Api.AdminTokenShown} of
 * @param {() => void} refresh
 */
const revoke = (of, refresh) => askAndDo({
  title: `Revoke ${of.name}`, danger: true, confirm: 'Revoke',
  done: `${of.name} is revoked.`,
  intro: h('p', null, 'From the moment this is done, every call with this token is refused, and its running jobs are stopped. It cannot be made valid again.'),
  act: () => post('/admin-tokens/{id}/revoke', {}, { path: { id: of.id } }),
}, refresh);

/**
 * @param {Api.AdminTokenShown} of
 * @param {() => void} refresh
 */
const takeOver = (of, refresh) => askAndDo({
  title: `Take ${of.name} over`, confirm: 'Take it over', done: `${of.name} is yours.`,
  intro: h('p', null, 'It is accepted as long as you are an administrator who can log in. This is on record.'),
  act: () => post('/admin-tokens/{id}/take-over', {}, { path: { id: of.id } }),
}, refresh);

/**
 * @param {Api.AdminTokenShown[]} list
 * @param {() => void} refresh
 */
function adminTokens(list, refresh) {
  return section('Admin tokens',
    h('p', null, 'For programs that use the admin API. They begin with ', h('code', null, 'cta_'), '. A token is accepted only while its owner is an administrator who can log in.'),
    table('Admin tokens', ['Name', 'Role', 'Owner', 'State', 'Ends', 'Last used', { name: 'Actions', hidden: true }], list.map((token) => [
      [data(token.name), h('span', { class: 'second-line' }, h('code', null, token.id))], roleName(token.role),
      token.owner ? data(token.owner) : 'the server', badge(token.state === 'live' ? 'good' : token.state === 'suspended' ? 'warn' : 'none', token.state),
      token.expiresAt ? day(token.expiresAt) : 'never', token.lastUsedAt ? moment(token.lastUsedAt) : 'never',
      (token.state === 'live' || token.state === 'suspended') && h('span', { class: 'row-actions' },
        token.owner && token.owner !== me()?.name && button('Take over', () => takeOver(token, refresh),
          { class: 'quiet', 'aria-label': `Take over ${token.name}` }),
        button('Revoke', () => revoke(token, refresh), { class: 'quiet', 'aria-label': `Revoke ${token.name}` })),
    ]), { empty: 'There is none.' }),
    h('p', null, button('Create an admin token', () => createAdminToken(refresh))));
}

/** @param {PageInput} input */
export async function users({ signal, refresh }) {
  const [{ users: all }, tokens] = await Promise.all([get('/users', { signal }),
    may('adminTokens') ? get('/admin-tokens', { signal }) : null]);
  return [
    heading('Users', button('Add a user', () => create(refresh), { class: 'primary' })),
    table('Users', ['Name', 'Role', 'State', 'Second factor', 'Last logged in', { name: 'Actions', hidden: true }], all.map((of) => [
      h('strong', null, data(of.name)), roleName(of.role), of.disabledAt ? badge('bad', 'disabled') : badge('good', 'may log in'),
      of.hasTotp ? badge('good', 'on') : badge('warn', 'off'), of.lastLoginAt ? moment(of.lastLoginAt) : 'never', actions(of, refresh),
    ])),
    tokens && adminTokens(tokens.adminTokens, refresh),
  ];
}
