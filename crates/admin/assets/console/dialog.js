// @ts-check
// Dialogs: a question with fields, and something that is shown once.

import { copyButton } from './copy-button.js';
import { busy, button, h, newId } from './dom.js';
import { valuesOf } from './fields.js';

/** When to say that something takes longer, in milliseconds. */
const SAY_WAITING_AFTER_MS = 3000;
const STILL_WORKING = 'Waiting until every server has confirmed it. This can take a minute if one of them is away.';

/**
 * @param {string} title
 * @param {Content} content
 * @param {Props} props
 */
function open(title, content, props) {
  const id = newId('dialog');
  const box = h('dialog', { 'aria-labelledby': id, ...props }, h('h2', { id }, title), content);
  document.body.append(box);
  box.showModal();
  return box;
}

/**
 * Keeps Escape from closing a dialog as long as `isKept()`. Browsers ask only once, so the key itself is caught too.
 * @param {HTMLDialogElement} box
 * @param {() => boolean} isKept
 */
function keepOpen(box, isKept) {
  box.addEventListener('cancel', (event) => { if (isKept()) event.preventDefault(); });
  box.addEventListener('keydown', (event) => { if (event.key === 'Escape' && isKept()) event.preventDefault(); });
}

/**
 * Asks something. `fields` are elements; `act(values)` does the work when the form is sent: while it runs the dialog stays, and
 * what it throws is shown in the dialog. Resolves with `{ values, result }`, or `null` if the user changed their mind.
 * @template Result
 * @param {Question<Result>} question
 * @returns {Promise<{ values: Values, result: Result } | null>}
 */
export function ask({ title, intro, fields = [], confirm, danger = false, act, wide = false }) {
  return new Promise((resolve) => {
    /** @type {{ values: Values, result: Result } | null} */
    let answer = null;
    const failed = h('p', { class: 'error-text', role: 'alert' });
    const waiting = h('p', { class: 'note', role: 'status' });
    const send = h('button', { type: 'submit', class: danger ? 'danger' : 'primary' }, confirm);
    const cancel = button('Cancel', () => box.close());
    const form = h('form', { autocomplete: 'off' },
      h('div', null, intro), fields, failed, waiting, h('div', { class: 'actions dialog-actions' }, cancel, send));
    const box = open(title, form, { class: wide && 'wide' });
    // What has begun is not cancelled by closing the box, so it stays open until the end is known.
    keepOpen(box, () => cancel.disabled);
    form.addEventListener('submit', (event) => {
      event.preventDefault();
      busy(send, async () => {
        failed.textContent = '';
        const values = valuesOf(form);
        cancel.disabled = true;
        const timer = setTimeout(() => { waiting.textContent ||= STILL_WORKING; }, SAY_WAITING_AFTER_MS);
        try {
          const result = await act(values, (text) => { waiting.textContent = text; });
          answer = { values, result };
          box.close();
        } catch (error) {
          if (!error.code) console.error(error);
          failed.textContent = error.message;
        } finally {
          clearTimeout(timer);
          waiting.textContent = '';
          cancel.disabled = false;
        }
      });
    });
    box.addEventListener('close', () => { box.remove(); resolve(answer); });
  });
}

/**
 * Shows a secret once. Escape does not close it, so that it is not lost by accident.
 * @param {{ title: string, intro: Content, secret: string, what: string, after?: Content }} options
 * @returns {Promise<void>}
 */
export function showOnce({ title, intro, secret, what, after }) {
  return new Promise((resolve) => {
    const code = h('code', { class: 'secret' }, secret);
    const box = open(title, [
      h('div', null, intro),
      h('p', null, code, copyButton(code, what, { class: 'primary' })),
      after,
      h('div', { class: 'actions dialog-actions' }, button('I have saved it', () => box.close())),
    ], { class: 'wide' });
    keepOpen(box, () => true);
    box.addEventListener('close', () => { box.remove(); resolve(); });
  });
}
