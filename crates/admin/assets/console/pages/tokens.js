// @ts-check
// Tokens: who may look things up, how much, and until when.

import { get, patch, post } from '../api.js';
import { lookupChart } from '../charts.js';
import { ask, showOnce } from '../dialog.js';
import { button, data, h } from '../dom.js';
import { checkField, selectField, textField } from '../fields.js';
import { counted, day, distance, moment, number } from '../format.js';
import { badge, flashNext, heading, section } from '../notices.js';
import { go, href } from '../router.js';
import { facts, table } from '../table.js';
import { afterwards } from './dialog-parts.js';

const ENDS_SOON_MS = 14 * 86_400_000;
const EXPIRY_CHOICES = [['30d', '30 days'], ['90d', '90 days'], ['180d', '180 days'], ['365d', 'one year'], ['never', 'never']];

/** @param {Api.TokenShown} token */
const stateBadge = ({ state, expiresAt }) => {
  if (state !== 'live') return badge(state === 'revoked' ? 'bad' : 'none', state);
  const isEnding = expiresAt && Date.parse(expiresAt) - Date.now() < ENDS_SOON_MS;
  return isEnding ? badge('warn', `ends ${distance(expiresAt)}`) : badge('good', 'live');
};

/** @param {Api.TokenShown} token */
const scopesOf = ({ scopes }) => scopes.map((scope) => ({ phone: 'phone numbers', email: 'e-mail addresses', mcp: 'as an agent' }[scope])).join(', ');

/** @param {Api.TokenShown} token */
const sandboxBadge = ({ sandbox }) => sandbox && [' ', badge('none', 'sandbox')];

/** @type {Record<string, string>} */
const UNITS = { s: 'second', m: 'minute', h: 'hour' };

/**
 * "50/s" → "50 a second", "10000/day" → "10,000 a day"
 * @param {string} limit
 */
function perTime(limit) {
  const [count, unit] = limit.split('/');
  return `${number(Number(count))} ${unit === 'h' ? 'an' : 'a'} ${UNITS[unit] ?? unit}`;
}

/** @param {Api.TokenShown} token */
function limits({ rate, burst, quota, quotaUsed }) {
  const isCounted = quotaUsed !== null && quotaUsed !== undefined;
  const parts = [rate && `${perTime(rate)}${burst ? `, ${number(burst)} at once` : ''}`,
    quota && `${perTime(quota)}${isCounted ? `, ${number(quotaUsed)} used` : ''}`].filter(Boolean);
  return parts.length ? parts.map((part, i) => [i > 0 && h('br'), part]) : 'none of its own';
}

/** @param {Api.ScopeName[]} [scopes] */
const scopeFields = (scopes = ['phone', 'email']) => h('fieldset', { class: 'form-row' }, h('legend', null, 'What it may look up'),
  checkField('phone', 'Phone numbers', { checked: scopes.includes('phone') }),
  checkField('email', 'E-mail addresses', { checked: scopes.includes('email') }),
  checkField('mcp', 'As an agent', { checked: scopes.includes('mcp'), hint: 'Also through the Model Context Protocol. It needs a quota: an agent decides by itself how often it asks.' }));

/** @param {Partial<Api.TokenShown>} [token] */
const limitFields = ({ rate, burst, quota, sandbox } = {}) => [
  textField('rate', 'Rate', { hint: 'Most lookups per second, minute or hour: 50/s, 600/m, 1000/h. Empty: the limit of the configuration, if there is one, or 10/s for tests only.', value: rate, pattern: '[0-9]+/[smh]', title: 'Such as 50/s, 600/m or 1000/h' }),
  textField('burst', 'Burst', { hint: 'How many may come at once.', inputmode: 'numeric', pattern: '[0-9]+', value: burst }),
  !sandbox && textField('quota', 'Quota', { hint: 'Most lookups that find something, per day or month: 10000/day, 200000/month.', value: quota,
    pattern: '[0-9]+/(day|month)', title: 'Such as 10000/day or 200000/month' }),
];

/**
 * @param {Values} boxes
 * @returns {Api.ScopeName[]}
 */
function scopesFrom({ phone, email, mcp }) {
  const scopes = [phone && 'phone', email && 'email', mcp && 'mcp'].filter(Boolean);
  if (!scopes.length) throw Object.assign(new Error('Choose at least one thing that it may look up.'), { code: 'invalid' });
  return scopes;
}

/** @param {Api.TokenWithSecret} made */
const shownToken = (made) => showOnce({
  title: `Token for ${made.name}`,
  intro: [h('p', null, h('strong', null, 'This is shown only once.'),
    ' Copy it now and store it where the other system reads its secrets. Only a hash of it is kept here.')],
  secret: made.token,
  what: 'the token',
  after: [
    h('p', { class: 'note' }, made.expiresAt ? `It is valid until ${moment(made.expiresAt)}.` : 'It does not end by itself.'),
    made.inForce ? null : h('p', { class: 'note' },
      'Not every server has confirmed it yet. One that is away may refuse the new token for a while and, after a rotation, still accept the old one.'),
  ],
});

/** @param {() => void} refresh */
async function create(refresh) {
  const answer = await ask({
    title: 'Create a token',
    wide: true,
    intro: h('p', null, 'Whoever has the token can look up what you allow here, from the moment it is created.'),
    fields: [
      textField('name', 'Name', { required: true, maxlength: 100,
        hint: 'The system or customer that uses it, such as crm-sync. People who ask who received their data read this name, so choose one that outsiders understand, never the name of a person.' }),
      scopeFields(), selectField('expires', 'Ends after', EXPIRY_CHOICES, { chosen: '90d' }),
      checkField('sandbox', 'For tests only', { hint: 'The sandbox answers: numbers and addresses are made up and follow from the URL. Nothing about anybody is disclosed, and nothing is counted, so it has no quota. This cannot be changed later.' }),
      h('details', { class: 'foldout' }, h('summary', null, 'Limits'), limitFields()),
    ],
    confirm: 'Create',
    act: ({ name, sandbox, expires, rate, burst, quota, ...boxes }) =>
      post('/tokens', { name, sandbox, expires, scopes: scopesFrom(boxes), rate, burst: burst && Number(burst), quota }),
  });
  if (!answer) return;
  await shownToken(answer.result);
  refresh();
}

/** @param {PageInput} input */
export async function tokens({ query, signal, refresh }) {
  const all = (await get('/tokens', { signal })).tokens;
  const isAll = query.get('show') === 'all';
  const shown = isAll ? all : all.filter((token) => token.state === 'live');
  const ended = all.length - all.filter((token) => token.state === 'live').length;
  return [
    heading('Tokens', button('Create a token', () => create(refresh), { class: 'primary' })),
    table('Tokens', ['Name', 'State', 'May look up', 'Ends', 'Last used', { name: 'Hits', number: true }, 'Limits'], shown.map((token) => [
      [h('a', { href: href(['tokens', token.id]) }, data(token.name)), h('span', { class: 'second-line' }, h('code', null, token.id))],
      [stateBadge(token), sandboxBadge(token)], scopesOf(token), token.expiresAt ? day(token.expiresAt) : 'never',
      token.lastUsedAt ? moment(token.lastUsedAt) : 'never', number(token.hits), limits(token),
    ]), { empty: 'There is no live token. Nobody can look anything up until you create one.' }),
    ended > 0 && h('p', null, isAll
      ? h('a', { href: href(['tokens']) }, 'Hide those that have ended')
      : h('a', { href: href(['tokens'], { show: 'all' }) }, `Show ${ended} that ${ended === 1 ? 'has' : 'have'} ended`)),
  ];
}

/**
 * What to send of a limit: nothing if it stays, `none` if it is removed.
 * @param {string | null | undefined} before
 * @param {string | undefined} now
 */
const changed = (before, now) => ((before ?? undefined) === now ? undefined : now ?? 'none');

/**
 * @param {Api.TokenShown} token
 * @param {() => void} refresh
 */
async function change(token, refresh) {
  const terms = [
    ['', token.expiresAt ? `on ${day(token.expiresAt)}, as now` : 'never, as now'],
    ...EXPIRY_CHOICES.map(([span, text]) => [span, span === 'never' ? text : `${text} from now`]),
  ];
  const answer = await ask({
    title: `Change ${token.name}`,
    wide: true,
    intro: h('p', null, 'What you change is in force at once. What is used of a quota still counts.'),
    fields: [scopeFields(token.scopes), selectField('expires', 'Ends', terms), limitFields(token)],
    confirm: 'Change',
    act: ({ expires, rate, burst, quota, ...boxes }) => patch('/tokens/{id}', {
      scopes: scopesFrom(boxes), expires, rate: changed(token.rate, rate), burst: burst && Number(burst), quota: changed(token.quota, quota),
    }, { path: { id: token.id } }),
  });
  if (!answer) return;
  flashNext(answer.result.inForce ? 'Changed. It is in force.' : 'Changed.', afterwards(answer.result));
  refresh();
}

/** @param {Api.TokenShown} token */
async function rotate(token) {
  const answer = await ask({
    title: `Rotate ${token.name}`,
    intro: [
      h('p', null, 'A new token with the same name, scopes and limits is created. The old one stays valid for a while, so that the other system can change over, unless it has ended.'),
      !token.sandbox && h('p', null, 'Both share one quota: what is used of it stays used.'),
    ],
    fields: [selectField('overlap', 'The old token ends',
      [['0s', 'at once'], ['1h', 'in one hour'], ['24h', 'in one day'], ['7d', 'in 7 days']], { chosen: '24h' })],
    confirm: 'Rotate',
    act: ({ overlap }) => post('/tokens/{id}/rotate', { overlap }, { path: { id: token.id } }),
  });
  if (!answer) return;
  await shownToken(answer.result);
  go(['tokens', answer.result.id]);
}

/**
 * @param {Api.TokenShown} token
 * @param {() => void} refresh
 */
async function revoke(token, refresh) {
  const answer = await ask({
    title: `Revoke ${token.name}`,
    danger: true,
    intro: [
      h('p', null, 'From the moment this is done, every lookup with this token is refused. It cannot be made valid again.'),
      h('p', null, token.lastUsedAt ? `It was last used on ${moment(token.lastUsedAt)}. Whatever uses it stops working.` : 'It was never used.'),
    ],
    confirm: 'Revoke',
    act: () => post('/tokens/{id}/revoke', {}, { path: { id: token.id } }),
  });
  if (!answer) return;
  flashNext(answer.result.inForce ? 'Revoked. Lookups with this token are refused.' : 'Revoked.', afterwards(answer.result));
  refresh();
}

/** @param {PageInput} input */
export async function token({ params, signal, refresh }) {
  const [{ tokens: all }, usage] = await Promise.all([get('/tokens', { signal }),
    get('/tokens/{id}/usage', { path: { id: params.id }, query: { days: 30 }, signal })]);
  const found = all.find(({ id }) => id === params.id);
  if (!found) return [heading('There is no such token'), h('p', null, h('a', { href: '#/tokens' }, 'All tokens'))];
  const isLive = found.state === 'live';
  const successor = all.find(({ rotatedFrom }) => rotatedFrom === found.id);
  return [
    h('p', { class: 'breadcrumb' }, h('a', { href: '#/tokens' }, 'Tokens')),
    heading(data(found.name), [isLive && button('Change', () => change(found, refresh)),
      (isLive || !successor) && button('Rotate', () => rotate(found)),
      isLive && button('Revoke', () => revoke(found, refresh), { class: 'danger' })]),
    facts([
      ['State', [stateBadge(found), sandboxBadge(found)]], ['Id', h('code', null, found.id)], ['May look up', scopesOf(found)],
      ['Created', moment(found.createdAt)],
      ['Ends', found.expiresAt ? `${moment(found.expiresAt)} (${distance(found.expiresAt)})` : 'never'],
      ['Revoked', found.revokedAt && moment(found.revokedAt)], ['Last used', found.lastUsedAt ? moment(found.lastUsedAt) : 'never'],
      ['Hits', found.sandbox ? 'not counted' : counted(found.hits, 'lookup')], ['Limits', limits(found)],
      ['Rotated from', found.rotatedFrom && h('a', { href: href(['tokens', found.rotatedFrom]) }, found.rotatedFrom)],
      ['Rotated to', successor && h('a', { href: href(['tokens', successor.id]) }, successor.id)],
    ]),
    found.sandbox
      ? section('For tests only', h('p', null, 'The sandbox answers this token: what it receives is made up and follows from the URL, such as ',
        h('code', null, '…/in/sandbox-hit'), ' or ', h('code', null, '…/in/sandbox-miss'), '. Its lookups are in the journal and not counted. A program that uses it in production finds nobody.'))
      : section('Lookups in the last 30 days', lookupChart(usage.days)),
  ];
}
