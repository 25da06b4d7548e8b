// @ts-check
// Retention: how long the details of each source are kept, and what ends next.

import { get, post } from '../api.js';
import { ask } from '../dialog.js';
import { button, data, h } from '../dom.js';
import { counted, day, distance, number, span } from '../format.js';
import { heading } from '../notices.js';
import { go } from '../router.js';
import { may } from '../session.js';
import { facts, table } from '../table.js';

/** @param {Api.SourceShown[]} sources */
async function sweep(sources) {
  const due = sources.reduce((sum, source) => sum + source.due, 0);
  const answer = await ask({
    title: 'Remove what has ended',
    danger: true,
    intro: [
      h('p', null, `${counted(due, 'detail')} that ${due === 1 ? 'has' : 'have'} expired or ${due === 1 ? 'is' : 'are'} older than the maximum age of the source ${due === 1 ? 'is' : 'are'} deleted. This cannot be undone.`),
      h('p', null, 'The running service does the same by itself. Nothing of this is given out to callers any more.'),
    ],
    confirm: 'Remove',
    act: () => post('/retention/sweep', { dryRun: false }),
  });
  if (answer) go(['jobs', answer.result.id]);
}

const COLUMNS = ['Source', 'Kept for', { name: 'Details', number: true }, { name: 'Ended, to be removed', number: true }, 'Ends next'];

/** @param {Api.SourceShown} source */
const row = ({ source, maxAge, details, due, next }) => [
  data(source),
  maxAge ? `${span(maxAge)} after it was last known correct` : 'until its own expiry date, if it has one',
  number(details),
  number(due),
  next ? `${counted(next.details, 'detail')} by ${day(next.by)} (${distance(next.by)})` : '–',
];

/** @param {PageInput} input */
export async function retention({ signal }) {
  const { sources, undo, auditKeep, sweepEvery } = await get('/retention', { signal });
  const due = sources.some((source) => source.due > 0);
  return [
    heading('Retention', may('sweep') && due && button('Remove what has ended', () => sweep(sources))),
    table('Retention by source', COLUMNS, sources.map(row), { empty: 'Nothing is held, and no source has a maximum age.' }),
    facts([
      ['Expired details are removed', `by the running service, every ${span(sweepEvery)}`],
      ['What imports changed, for undo', undo ? `kept for ${span(undo)}` : 'not kept'],
      ['Lines of the audit journal', auditKeep ? `kept for ${span(auditKeep)}` : 'kept for ever'],
    ]),
    h('p', { class: 'note' }, may('nodes') ? ['The maximum age of a source is set with ', h('code', null, 'contactd import --max-age'),
      ' on the server, the other times in its configuration.'] : 'Whoever runs the server sets these times.'),
  ];
}
