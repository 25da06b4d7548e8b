// @ts-check
// What a verification of the journal has found.

import { data, h } from '../dom.js';
import { counted, moment, number } from '../format.js';
import { badge, notice, section } from '../notices.js';
import { table } from '../table.js';

const STEPS = [
  'Save this page, and a copy of the whole data directory, before anything else is written.',
  'Find the cause: the log of the system, who had access, the disk.',
  'Reports leave out lines that are not proven. Compare with a backup what is missing.',
  'Do not remove or edit files to make the verification succeed.',
];

/** @type {Record<string, [Tone, string, string]>} */
const VERDICTS = {
  whole: ['good', 'The journal is whole', 'No line was changed, added, moved or removed, as far as the signatures prove.'],
  unverified: ['warn', 'Not everything was verified',
    'Nothing wrong was found in what was checked. The journals of some nodes were not checked, because their roots were not given.'],
  broken: ['bad', 'The journal is NOT whole',
    'Something was changed or removed, or a disk is damaged. The service goes on and records as before.'],
};

const GIVEN = 'the one that you gave';
const REMEMBERED = 'remembered by the store; compare it with the one that you noted down';

/** @typedef {{ line: number, time: string }} Signed */

/** @param {{ name: string, state: string, lines: number, signedTo?: Signed | null, root: string, isRootGiven: boolean }} node */
const nodeRow = ({ name, state, lines, signedTo, root, isRootGiven }) => [
  data(name),
  state === 'whole' ? badge('good', 'whole') : state === 'unverified' ? badge('warn', 'not verified') : badge('bad', 'not whole'),
  number(lines),
  signedTo ? `${number(signedTo.line)}, ${moment(signedTo.time)}` : '–',
  [h('code', { class: 'key-text' }, root), h('span', { class: 'second-line' }, isRootGiven ? GIVEN : REMEMBERED)],
];

/** @param {Api.JobShown} job */
export function verifyResult({ result }) {
  const [tone, title, text] = VERDICTS[result.state] ?? VERDICTS.broken;
  return [
    notice(tone, h('p', null, h('strong', null, badge(tone, title)), ' ', `${counted(result.lines, 'line')} checked.`), h('p', null, text)),
    result.faults.length > 0 && section('What is wrong',
      table('Faults', ['File', { name: 'Line', number: true }, 'What'],
        result.faults.map((/** @type {{ file: string, line: number | null, what: string }} */ { file, line, what }) => [data(file), line === null ? '–' : number(line), data(what)])),
      h('h3', null, 'What to do'), h('ol', null, STEPS.map((step) => h('li', null, step)))),
    section('By node', table('Nodes', ['Node', 'State', { name: 'Lines', number: true }, 'Signed to line', 'Root'], result.nodes.map(nodeRow))),
    result.notes.length > 0 && section('Notes', h('ul', null, result.notes.map((/** @type {string} */ note) => h('li', null, data(note))))),
  ];
}
