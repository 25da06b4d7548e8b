// @ts-check
// System: what a health check finds, and the nodes of a cluster.

import { get } from '../api.js';
import { data, h } from '../dom.js';
import { moment, number } from '../format.js';
import { badge, heading, section } from '../notices.js';
import { table } from '../table.js';
import { nodeBadge } from './overview.js';

/** @type {Record<string, [Tone, string]>} */
const VERDICTS = { ok: ['good', 'ok'], warn: ['warn', 'look at this'], fail: ['bad', 'wrong'] };

/**
 * @param {Api.FindingShown} finding
 * @returns {Content[]}
 */
const findingRow = ({ check, verdict, message, advice }) => [
  data(check),
  badge(...(VERDICTS[verdict] ?? ['none', verdict])),
  [data(message), advice && h('span', { class: 'second-line' }, data(advice))],
];

const NODE_COLUMNS = ['Node', 'State', 'Version', 'Lease', { name: 'Changes behind', number: true }, 'Last seen', 'Joined'];

/** @param {Api.NodeShown} node */
const nodeRow = ({ id, name, state, version, lease, behind, seenAt, joinedAt }) => [
  [h('strong', null, data(name)), h('span', { class: 'second-line' }, h('code', null, id))],
  nodeBadge(state), version, lease, number(behind), moment(seenAt), moment(joinedAt),
];

/** @param {PageInput} input */
export async function system({ signal }) {
  const [{ findings, version }, { nodes }] = await Promise.all([get('/health', { signal }), get('/nodes', { signal })]);
  return [
    heading('System'),
    version && h('p', { class: 'lead' }, `contactd ${version}`),
    section('Checks', table('Checks', ['Check', 'Verdict', 'Found'], findings.map(findingRow))),
    section('Nodes', table('Nodes', NODE_COLUMNS, nodes.map(nodeRow), { empty: 'This service runs on one machine, without a cluster.' })),
  ];
}
