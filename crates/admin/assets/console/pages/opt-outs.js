// @ts-check
// Opt-outs: one person, a whole list, and taking one back.

import { get, post } from '../api.js';
import { ask } from '../dialog.js';
import { busy, button, data, h } from '../dom.js';
import { dropZone } from '../drop-zone.js';
import { checkField, textArea, textField, ticketField, valuesOf } from '../fields.js';
import { counted, number } from '../format.js';
import { heading, notice, section } from '../notices.js';
import { go } from '../router.js';
import { may } from '../session.js';
import { optOutUnseen } from './opt-out-dialogs.js';
import { lookFor } from './people-search.js';

const MAX_LIST_BYTES = 64 * 1024 * 1024;
/** More than this many need their number typed. */
const ASK_ABOVE = 10;
/** How many lines with entries that cannot be read are named. */
const MOST_NAMED = 10;

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
 * What will be opted out, before it is.
 * @param {Api.ListShown} list
 */
function intro({ named, columns, otherSheets, rejected, moreRejected }) {
  const others = rejected.length + moreRejected;
  return [
    h('p', null, `The list names ${counted(named, 'person, number or address', 'people, numbers and addresses')}. Each is opted out: from the moment this is done, no lookup gives it out, also if it is imported again.`),
    columns.length > 0 && h('p', null, 'Read from the columns ', columns.map((column, i) => [i > 0 && ', ', data(column)]), '.'),
    otherSheets.length > 0 && notice('warn', h('p', null,
      'Only the first sheet of the workbook is read, and not ', otherSheets.map((name, i) => [i > 0 && ', ', data(name)]), '.')),
    others > 0 && notice('warn', h('p', null,
      `${counted(others, 'entry', 'entries')} cannot be read and ${others === 1 ? 'is' : 'are'} left out (line ${rejected.slice(0, MOST_NAMED).map(({ line }) => number(line)).join(', ')}${others > MOST_NAMED ? ' and more' : ''}). You see why afterwards.`)),
    h('p', null, 'A number or an address is opted out under every profile. The data stays stored.'),
  ];
}

function listForm() {
  /** @type {File | null} */
  let chosen = null;
  const failed = h('p', { class: 'error-text', role: 'alert' });
  const send = h('button', { type: 'submit', class: 'primary' }, 'Continue');
  const typed = textArea('text', 'Or paste them here', { placeholder: 'https://www.linkedin.com/in/…\nada@example.com\n+14155550123' });
  const drop = dropZone({
    label: 'Choose a list', accept: '.txt,.csv,.tsv,.xlsx,.jsonl,.ndjson,.parquet,.gz,.zst',
    hint: 'One profile URL, e-mail address or phone number per line; or a CSV or an Excel workbook (.xlsx) with a header.',
    onFile: (file) => { chosen = file; },
  });
  const form = h('form', { class: 'panel', autocomplete: 'off' }, drop, typed, failed, h('div', { class: 'actions' }, send));
  form.addEventListener('submit', (event) => {
    event.preventDefault();
    busy(send, async () => {
      failed.textContent = '';
      if (chosen && chosen.size > MAX_LIST_BYTES) { failed.textContent = 'This list is longer than 64 MB. Split it.'; return; }
      const file = chosen ?? new Blob([typed.querySelector('textarea')?.value ?? '']);
      if (!file.size) { failed.textContent = 'Choose a file or paste at least one line.'; typed.querySelector('textarea')?.focus(); return; }
      const headers = { 'Content-Type': 'application/octet-stream' };
      /** @type {Api.ListShown} */
      let list;
      try {
        list = await post('/opt-outs/list/check', file, { headers });
      } catch (error) {
        if (!error.code) throw error;
        failed.textContent = error.message;
        return;
      }
      if (!list.named) { failed.textContent = `No line can be read. Line ${number(list.rejected[0].line)}: ${list.rejected[0].reason}`; return; }
      const answer = await ask({
        title: 'Opt out a list',
        intro: intro(list),
        fields: [
          list.named > ASK_ABOVE && textField('typed', `Type ${list.named} to opt out all of them`,
            { required: true, inputmode: 'numeric', pattern: String(list.named) }),
          checkField('person', 'Also opt out the people who have these numbers and addresses',
            { hint: 'Everything in their profiles, also if several people share a number or an address.' }),
          ticketField(),
        ],
        confirm: 'Opt out',
        act: ({ ticket, person }) => post('/opt-outs/list', file, { query: { ticket, person }, headers }),
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
