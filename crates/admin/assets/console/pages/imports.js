// @ts-check
// Imports: what was loaded, and undoing it.

import { get, post, remove } from '../api.js';
import { ask } from '../dialog.js';
import { button, data, h, linkButton } from '../dom.js';
import { bytes, counted, distance, moment, number } from '../format.js';
import { attempt, badge, flashNext, heading, section } from '../notices.js';
import { go, href } from '../router.js';
import { table } from '../table.js';

/**
 * Asks, and undoes an import as a job.
 * @param {Pick<Api.ShownImport, 'id' | 'source' | 'detailsNew' | 'detailsChanged' | 'detailsWithdrawn'>} entry
 */
export async function undo({ id, source, detailsNew, detailsChanged, detailsWithdrawn }) {
  const back = detailsChanged + detailsWithdrawn;
  const answer = await ask({
    title: `Undo import ${id}`,
    danger: true,
    intro: [
      h('p', null, `${counted(detailsNew, 'detail')} that it added ${detailsNew === 1 ? 'is' : 'are'} removed, and ${counted(back, 'detail')} that it changed or withdrew ${back === 1 ? 'is' : 'are'} restored, all from source `, data(source), '.'),
      h('p', null, 'What was removed by hand or erased, or has expired since, stays gone. Opt-outs stay in force. To take the undo back, import the file again.'),
    ],
    confirm: 'Undo the import',
    act: () => post('/imports/{id}/undo', {}, { path: { id: String(id) } }),
  });
  if (answer) go(['jobs', answer.result.id]);
}

/** @param {Api.ShownImport} entry */
function undoCell(entry) {
  if (entry.undoneAt) return [badge('none', 'undone'), h('span', { class: 'second-line' }, moment(entry.undoneAt))];
  if (!entry.undoUntil) return h('span', { class: 'note' }, 'can no longer be undone');
  return [button('Undo', () => undo(entry), { class: 'quiet at-edge', 'aria-label': `Undo import ${entry.id}` }),
    h('span', { class: 'second-line' }, `possible until ${moment(entry.undoUntil)}`)];
}

/**
 * The files that were sent and are still there.
 * @param {Api.ListedUpload[]} uploads
 * @param {() => void} refresh
 */
function sentFiles(uploads, refresh) {
  if (!uploads.length) return null;
  return section('Files that you have sent',
    h('p', { class: 'note' }, 'Only you see them. Each is deleted a day after it was sent, or when somebody is erased.'),
    table('Files that you have sent', ['File', { name: 'Size', number: true }, 'Sent', 'Deleted', { name: 'Actions', hidden: true }], uploads.map((file) => {
      const away = button('Throw away', () => attempt(away, async () => { await remove('/uploads/{id}', undefined, { path: { id: file.id } }); flashNext('Thrown away.'); refresh(); }),
        { class: 'quiet', 'aria-label': `Throw away ${file.name}` });
      return [h('a', { href: href(['imports', 'upload', file.id]) }, data(file.name)), bytes(file.bytes),
        `${moment(file.sentAt)} (${distance(file.sentAt)})`, distance(file.deletedAt), away];
    })));
}

/** @param {PageInput} input */
export async function imports({ signal, refresh }) {
  const [{ imports: all }, { uploads }] = await Promise.all([get('/imports', { signal }), get('/uploads', { signal })]);
  const columns = ['Import', 'Source', 'Files', 'By', { name: 'Rows', number: true }, { name: 'New', number: true },
    { name: 'Changed', number: true },
    { name: 'Withdrawn', number: true }, { name: 'Rejected', number: true }, 'Undo'];
  return [
    heading('Imports', linkButton('Import a file', href(['imports', 'new']), { class: 'button primary' })),
    sentFiles(uploads, refresh),
    table('Imports', columns, all.map((entry) => [
      [h('strong', null, `${entry.id}`), h('span', { class: 'second-line' }, moment(entry.importedAt))],
      data(entry.source), entry.files.length ? entry.files.map((file, i) => [i > 0 && ', ', data(file)]) : 'by hand',
      data(entry.actor ?? '–'),
      number(entry.rows), number(entry.detailsNew), number(entry.detailsChanged), number(entry.detailsWithdrawn), number(entry.rejected),
      undoCell(entry),
    ]), { empty: 'Nothing has been imported yet. Import a file to begin.' }),
  ];
}
