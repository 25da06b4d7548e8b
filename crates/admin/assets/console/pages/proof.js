// @ts-check
// Audit: verifying the journal, the root key to note down, and proofs for an auditor.

import { get, post } from '../api.js';
import { copyButton } from '../copy-button.js';
import { data, h } from '../dom.js';
import { textArea, textField, valuesOf } from '../fields.js';
import { isoDay, moment, number } from '../format.js';
import { attempt, heading, section } from '../notices.js';
import { go } from '../router.js';
import { auditTabs } from './audit.js';
import { journalBadge } from './overview.js';

const DAY_MS = 86_400_000;

/**
 * @param {string} text
 * @param {string} what
 */
function key(text, what) {
  const code = h('code', { class: 'key-text' }, text);
  return h('span', { class: 'key-with-button' }, code, copyButton(code, what));
}

/**
 * Words separated by spaces or lines.
 * @param {string} [text]
 */
const wordsOf = (text = '') => text.split(/\s+/).filter(Boolean);

function verifyForm() {
  const send = h('button', { type: 'submit', class: 'primary' }, 'Verify now');
  const form = h('form', { class: 'panel', autocomplete: 'off' },
    textArea('roots', 'Roots that you noted down', {
      rows: 2, hint: 'One per line; after a restore there are several. Empty: the roots that the store remembers are trusted.',
    }),
    textField('head', 'A head that you noted down', {
      hint: 'Shows whether lines up to there are missing. Empty: the end of the journal is compared with what this machine remembers.',
    }),
    h('div', { class: 'actions' }, send));
  form.addEventListener('submit', (event) => {
    event.preventDefault();
    const { roots, head } = valuesOf(form);
    attempt(send, async () => go(['jobs', (await post('/audit/verify', { roots: wordsOf(roots), head })).id]));
  });
  return form;
}

function proofForm() {
  const send = h('button', { type: 'submit', class: 'primary' }, 'Make the proof');
  const form = h('form', { class: 'panel', autocomplete: 'off' }, h('div', { class: 'field-pair' },
    textField('since', 'From', { type: 'date', required: true, value: isoDay(new Date(Date.now() - 30 * DAY_MS)), hint: '00:00 UTC' }),
    textField('until', 'Before', { type: 'date', required: true, value: isoDay(new Date(Date.now() + DAY_MS)), hint: '00:00 UTC' })),
  h('div', { class: 'actions' }, send));
  form.addEventListener('submit', (event) => {
    event.preventDefault();
    const { since, until } = valuesOf(form);
    attempt(send, async () => go(['jobs', (await post('/audit/proof', { since, until })).id]));
  });
  return form;
}

/** @param {PageInput} input */
export async function proof({ signal }) {
  const [{ journal }, { roots }, head] = await Promise.all([get('/overview', { signal }), get('/audit/root', { signal }),
    get('/audit/head', { signal })]);
  return [
    heading('Audit'), auditTabs('audit/proof'),
    section('Is the journal whole?',
      h('p', null, journalBadge(journal), ' ', h('span', { class: 'note' }, journal.message && data(journal.message))),
      h('p', null, 'A verification reads every line, checks every signature, and compares the index with the journal. It needs no secret, and lookups go on.'),
      h('p', null, 'With a root and a head that were noted down on another machine, a journal that was cut off or replaced is found. This check runs on the server itself: if you do not want to trust it, download a proof and verify that elsewhere.'),
      verifyForm()),
    section('Note these down elsewhere',
      h('p', null, 'The root is the public key that verifies everything; note it once, on another machine. Note a head every day. With both, a journal that was cut off or replaced is found. Neither is secret.'),
      h('dl', { class: 'facts one-column' },
        roots.map(({ node, key: text, isCurrent }) => h('div', null,
          h('dt', null, 'Root of ', data(node), isCurrent === false && ' (before a restore)'),
          h('dd', null, key(text, `the root of ${node}`)))),
        head.heads.map(({ node, head: text, line, time }) => h('div', null, h('dt', null, 'Head of ', data(node)),
          h('dd', null, key(text, `the head of ${node}`),
          h('span', { class: 'second-line' }, `line ${number(line)} of ${moment(time)}`)))))),
    section('Proof for an auditor',
      h('p', null, 'One file with the lines of a period. It proves that these are the journal’s lines and that none is missing between the first and the last. It contains no phone number, e-mail address or profile URL.'),
      proofForm()),
  ];
}
