// @ts-check
// Export: everything that is held, as a file.

import { post } from '../api.js';
import { h } from '../dom.js';
import { radioField, textField, ticketField, valuesOf } from '../fields.js';
import { attempt, heading, notice } from '../notices.js';
import { go } from '../router.js';

export async function exportPage() {
  const send = h('button', { type: 'submit', class: 'primary' }, 'Export');
  const form = h('form', { class: 'panel', autocomplete: 'off' },
    radioField('format', 'Form', [
      { value: 'jsonl', label: 'JSON lines', hint: 'One profile per line. Can be imported again without loss.' },
      { value: 'csv', label: 'CSV', hint: 'One detail per row, for a spreadsheet.' },
    ], 'jsonl'),
    textField('source', 'Source', { hint: 'Empty: all sources.', maxlength: 100 }),
    ticketField({ required: true }),
    h('div', { class: 'actions' }, send));
  form.addEventListener('submit', (event) => {
    event.preventDefault();
    const { format, source, ticket } = valuesOf(form);
    attempt(send, async () => go(['jobs', (await post('/exports', { format, source, ticket })).id]));
  });
  return [
    heading('Export'),
    notice('warn', h('p', null, 'The file contains all personal data that is held, in clear. An opt-out or an erasure does not reach what was downloaded. That you exported, and for which ticket, is put on record first.')),
    form,
  ];
}
