// @ts-check
// Opt-outs: one person, a whole list, and taking one back.

import { get, post } from '../api.js';
import { ask } from '../dialog.js';
import { busy, button, h } from '../dom.js';
import { dropZone } from '../drop-zone.js';
import { checkField, textArea, textField, ticketField, valuesOf } from '../fields.js';
import { counted, number } from '../format.js';
import { heading, section } from '../notices.js';
import { go } from '../router.js';
import { may } from '../session.js';
import { optOutUnseen } from './opt-out-dialogs.js';
import { lookFor } from './people-search.js';

const MAX_LIST_BYTES = 64 * 1024 * 1024;

function onePersonForm() {
  if (!may('people')) return null;
  const form = h('form', { class: 'panel', autocomplete: 'off' },
    textField('q', 'Profile URL, e-mail address or phone number', { required: true, maxlength: 2048, placeholder: 'ada@example.com' }),
    h('div', { class: 'actions' }, h('button', { type: 'submit', class: 'primary' }, 'Look for it'),
      button('Opt out without looking', () => { if (form.reportValidity()) optOutUnseen(valuesOf(form).q); })));
  form.addEventListener('submit', (event) => { event.preventDefault(); lookFor(valuesOf(form).q); });
  return section('One person', h('p', { class: 'lead' },
    'Look for the person first: you then see what is held, and whether to opt out the one address or everything. Taking an opt-out back is there, too.'), form);
}

/**
 * Lines that are neither empty nor a comment.
 * @param {string} text
 */
const linesOf = (text) => text.split(/\r?\n/).map((line) => line.trim()).filter((line) => line && !line.startsWith('#'));

function listForm() {
  /** @type {File | null} */
  let chosen = null;
  const failed = h('p', { class: 'error-text', role: 'alert' });
  const send = h('button', { type: 'submit', class: 'primary' }, 'Continue');
  const typed = textArea('text', 'Or paste them here', { placeholder: 'https://www.linkedin.com/in/…\nada@example.com\n+14155550123' });
  const drop = dropZone({
    label: 'Choose a list', accept: '.txt,.csv,text/plain,text/csv',
    hint: 'A text file, one profile URL, e-mail address or phone number per line.',
    onFile: (file) => { chosen = file; },
  });
  const form = h('form', { class: 'panel', autocomplete: 'off' }, drop, typed, failed, h('div', { class: 'actions' }, send));
  form.addEventListener('submit', (event) => {
    event.preventDefault();
    busy(send, async () => {
      failed.textContent = '';
      if (chosen && chosen.size > MAX_LIST_BYTES) { failed.textContent = 'This list is longer than 64 MB. Split it.'; return; }
      const text = chosen ? await chosen.text() : typed.querySelector('textarea')?.value ?? '';
      const lines = linesOf(text);
      if (!lines.length) { failed.textContent = 'Choose a file or paste at least one line.'; typed.querySelector('textarea')?.focus(); return; }
      const answer = await ask({
        title: `Opt out ${counted(lines.length, 'line')}`,
        intro: [
          h('p', null, `Each of the ${counted(lines.length, 'line')} is opted out: from the moment this is done, no lookup gives it out, also if it is imported again.`),
          h('p', null, 'A number or an address is opted out under every profile. Lines that cannot be read are listed afterwards, and the others are done.'),
          h('p', null, 'The data stays stored.'),
        ],
        fields: [
          lines.length > 10 && textField('typed', `Type ${lines.length} to opt out ${lines.length} lines`,
            { required: true, inputmode: 'numeric', pattern: String(lines.length) }),
          checkField('person', 'Also opt out the people who have these numbers and addresses',
            { hint: 'Everything in their profiles, also if several people share a number or an address.' }),
          ticketField(),
        ],
        confirm: 'Opt out',
        act: ({ ticket, person }) => post('/opt-outs/list', text, { query: { ticket, person }, headers: { 'Content-Type': 'text/plain; charset=utf-8' } }),
      });
      if (answer) go(['jobs', answer.result.id]);
    });
  });
  return section('A list', form);
}

/** @param {PageInput} input */
export async function optOuts({ signal }) {
  const { suppressions } = await get('/overview', { signal });
  return [
    heading('Opt-outs'),
    h('p', { class: 'lead' }, h('strong', null, number(suppressions)),
      ` ${suppressions === 1 ? 'person, number or address is' : 'people, numbers and addresses are'} opted out. `,
      'They cannot be listed: the service stores digests only, so that nobody can read from a copy who opted out.'),
    onePersonForm(), listForm(),
  ];
}
