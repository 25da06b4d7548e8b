// @ts-check
// Form fields with their labels and hints.

import { h, newId } from './dom.js';

/**
 * @param {string} id
 * @param {string} label
 * @param {Content} hint
 * @param {Element} control
 */
const wrapped = (id, label, hint, control) => h('div', { class: 'form-row' },
  h('label', { for: id }, label), control, hint && h('p', { class: 'hint', id: `${id}-hint` }, hint));

/**
 * A field for text. `props`: attributes of the input.
 * @param {string} name
 * @param {string} label
 * @param {Props} [props]
 */
export function textField(name, label, { hint, ...props } = {}) {
  const id = newId(name);
  return wrapped(id, label, hint, h('input', {
    id, name, type: 'text', autocomplete: 'off', autocapitalize: 'off', spellcheck: 'false',
    'aria-describedby': hint && `${id}-hint`, ...props,
  }));
}

/**
 * A field for several lines.
 * @param {string} name
 * @param {string} label
 * @param {Props} [props]
 */
export function textArea(name, label, { hint, ...props } = {}) {
  const id = newId(name);
  return wrapped(id, label, hint, h('textarea', {
    id, name, autocomplete: 'off', autocapitalize: 'off', spellcheck: 'false', rows: 6, 'aria-describedby': hint && `${id}-hint`, ...props,
  }));
}

/**
 * A list to choose from. `options`: [value, text] pairs.
 * @param {string} name
 * @param {string} label
 * @param {string[][]} options
 * @param {Props} [props]
 */
export function selectField(name, label, options, { hint, chosen, ...props } = {}) {
  const id = newId(name);
  return wrapped(id, label, hint, h('select', { id, name, 'aria-describedby': hint && `${id}-hint`, ...props },
    options.map(([value, text]) => h('option', { value, selected: value === chosen }, text))));
}

/**
 * A box to tick.
 * @param {string} name
 * @param {string} label
 * @param {Props} [props]
 */
export function checkField(name, label, { hint, ...props } = {}) {
  const id = newId(name);
  return h('div', { class: 'form-row choice' },
    h('input', { id, name, type: 'checkbox', 'aria-describedby': hint && `${id}-hint`, ...props }),
    h('div', null, h('label', { for: id }, label), hint && h('p', { class: 'hint', id: `${id}-hint` }, hint)));
}

/**
 * One of several. `options`: { value, label, hint }.
 * @param {string} name
 * @param {string} legend
 * @param {Array<{ value: string, label: string, hint?: string }>} options
 * @param {string} chosen
 */
export function radioField(name, legend, options, chosen) {
  return h('fieldset', { class: 'form-row' }, h('legend', null, legend), options.map(({ value, label, hint }) => {
    const id = newId(name);
    return h('div', { class: 'choice' },
      h('input', { id, name, type: 'radio', value, checked: value === chosen, 'aria-describedby': hint && `${id}-hint` }),
      h('div', null, h('label', { for: id }, label), hint && h('p', { class: 'hint', id: `${id}-hint` }, hint)));
  }));
}

/**
 * The case that something is done for.
 * @param {Props} [props]
 */
export const ticketField = (props) => textField('ticket', 'Ticket', {
  hint: 'The number of the case, such as DSR-17. It stays in the audit journal for ever, so never a name, a number or an address.',
  maxlength: 100, ...props,
});

/**
 * The values of a form: text without spaces around it, `true` or `false` for boxes. Empty text is left out.
 * @param {HTMLFormElement} form
 */
export function valuesOf(form) {
  /** @type {Values} */
  const values = {};
  for (const control of /** @type {Iterable<any>} */ (form.elements)) {
    if (!control.name || control.disabled) continue;
    if (control.type === 'checkbox') values[control.name] = control.checked;
    else if (control.type === 'radio') { if (control.checked) values[control.name] = control.value; }
    else if (control.type === 'file') { if (control.files[0]) values[control.name] = control.files[0]; }
    else if (control.type === 'password') values[control.name] = control.value;
    else if (control.value.trim() !== '') values[control.name] = control.value.trim();
  }
  return values;
}
