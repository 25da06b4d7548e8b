// @ts-check
// Usage: lookups by token and by day, for a period.

import { address, get } from '../api.js';
import { lookupChart } from '../charts.js';
import { data, h, linkButton } from '../dom.js';
import { number } from '../format.js';
import { heading, section } from '../notices.js';
import { table } from '../table.js';
import { period, periodForm } from './period.js';

/** @param {PageInput} input */
export async function usage({ query, signal }) {
  const range = period(query);
  const [byDay, byToken] = await Promise.all([
    get('/usage', { signal, query: { ...range, by: 'day' } }), get('/usage', { signal, query: { ...range, by: 'token' } }),
  ]);
  return [
    heading('Usage', linkButton('Download as CSV', address('/usage', { query: { ...range, format: 'csv' } }), { download: 'usage.csv' })),
    periodForm(['usage'], query),
    section('By day', lookupChart('days' in byDay ? byDay.days : [])),
    section('By token', table('Usage by token',
      ['Token', { name: 'Found', number: true }, { name: 'Nothing found', number: true }, { name: 'Refused', number: true }],
      ('tokens' in byToken ? byToken.tokens : []).map((row) => [[data(row.tokenName ?? row.token), h('span', { class: 'second-line' }, h('code', null, row.token))],
        number(row.hits), number(row.misses), number(row.refused)]),
      { empty: 'No token was used in this time.' })),
  ];
}
