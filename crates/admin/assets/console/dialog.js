// Dialogs: a question with fields, and something that is shown once.

import { copyButton } from './copy.js';
import { busy, button, h, newId } from './dom.js';
import { valuesOf } from './fields.js';

function open(title, content, props) {
  const id = newId('dialog');
  const box = h('dialog', { 'aria-labelledby': id, ...props }, h('h2', { id }, title), content);
  document.body.append(box);
  box.showModal();
  return box;
}

/**
 * Asks something. `fields` are elements; `act(values)` does the work when the form is sent: while it runs the dialog stays, and
 * what it throws is shown in the dialog. Resolves with `{ values, result }`, or `null` if the user changed their mind.
 */
export function ask({ title, intro, fields = [], confirm, danger = false, act = async () => null, wide = false }) {
  return new Promise((resolve) => {
    let answer = null;
    const failed = h('p', { class: 'failed', role: 'alert' });
    const waiting = h('p', { class: 'note', role: 'status' });
    const send = h('button', { type: 'submit', class: danger ? 'danger' : 'primary' }, confirm);
    const form = h('form', { autocomplete: 'off' },
      h('div', { class: 'said-so' }, intro), fields, failed, waiting,
      h('div', { class: 'actions end' }, button('Cancel', () => box.close()), send));
    const box = open(title, form, { class: wide && 'wide' });
    form.addEventListener('submit', (event) => {
      event.preventDefault();
      busy(send, async () => {
        failed.textContent = '';
        const values = valuesOf(form);
        try {
          const result = await act(values, (text) => { waiting.textContent = text; });
          answer = { values, result };
          box.close();
        } catch (error) {
          if (!error.code) console.error(error);
          failed.textContent = error.message;
        } finally {
          waiting.textContent = '';
        }
      });
    });
    box.addEventListener('close', () => { box.remove(); resolve(answer); });
  });
}

/** Shows a secret once. Escape does not close it, so that it is not lost by accident. */
export function showOnce({ title, intro, secret, what, after }) {
  return new Promise((resolve) => {
    const code = h('code', { class: 'secret' }, secret);
    const box = open(title, [
      h('div', { class: 'said-so' }, intro),
      h('p', { class: 'secret-line' }, code, copyButton(code, what, { class: 'primary' })),
      after,
      h('div', { class: 'actions end' }, button('I have saved it', () => box.close())),
    ], { class: 'wide' });
    box.addEventListener('cancel', (event) => event.preventDefault());
    box.addEventListener('close', () => { box.remove(); resolve(); });
  });
}
