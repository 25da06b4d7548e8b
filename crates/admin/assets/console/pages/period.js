// @ts-check
// A period of time, kept in the address of a page.

import { h } from '../dom.js';
import { selectField, textField, valuesOf } from '../fields.js';
import { go } from '../router.js';

const SPANS = [['7d', 'Last 7 days'], ['30d', 'Last 30 days'], ['90d', 'Last 90 days'], ['365d', 'Last year'], ['own', 'From … to …']];

/**
 * The period that an address names; the last 30 days if it names none.
 * @param {URLSearchParams} query
 * @param {string} [normal]
 */
export const period = (query, normal = '30d') => ({ since: query.get('since') ?? normal, until: query.get('until') ?? undefined });

/**
 * Fields to choose a period.
 * @param {URLSearchParams} query
 * @param {string} [normal]
 */
export function periodFields(query, normal = '30d') {
  const since = query.get('since') ?? normal;
  const isSpan = SPANS.some(([span]) => span === since) && !query.get('until');
  const from = textField('from', 'From', { type: 'date', value: isSpan ? '' : since.slice(0, 10), hint: '00:00 UTC' });
  const to = textField('to', 'Before', { type: 'date', value: query.get('until')?.slice(0, 10) ?? '', hint: '00:00 UTC' });
  const span = selectField('span', 'Period', SPANS, { chosen: isSpan ? since : 'own' });
  const dates = h('div', { class: 'date-range', hidden: isSpan }, from, to);
  span.addEventListener('change', () => {
    dates.hidden = span.querySelector('select')?.value !== 'own';
    if (!dates.hidden) from.querySelector('input')?.focus();
  });
  return [span, dates];
}

/**
 * What the fields say, for the address.
 * @param {Values} values
 */
export const chosenPeriod = ({ span, from, to }) => (span === 'own' ? { since: from, until: to } : { since: span });

/**
 * A form that opens the page again for another period.
 * @param {string[]} parts
 * @param {URLSearchParams} query
 */
export function periodForm(parts, query) {
  const form = h('form', { class: 'filters', autocomplete: 'off' }, periodFields(query), h('button', { type: 'submit' }, 'Show'));
  form.addEventListener('submit', (event) => { event.preventDefault(); go(parts, chosenPeriod(valuesOf(form))); });
  return form;
}
