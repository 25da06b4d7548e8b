// @ts-check
// A place to drop a file, which is also a button to choose one.

import { h, newId } from './dom.js';
import { bytes } from './format.js';

/**
 * `onFile(file)` is called with the file that was dropped or chosen. The file field does the work for keyboards.
 * @param {{ label: string, accept: string, hint: string, onFile: (file: File) => void }} options
 */
export function dropZone({ label, accept, hint, onFile }) {
  const id = newId('file');
  const name = h('p', { class: 'file-name', role: 'status' });
  const input = h('input', { id, type: 'file', accept, class: 'visually-hidden', 'aria-describedby': `${id}-hint` });
  const zone = h('div', { class: 'drop-zone' },
    input, h('label', { for: id, class: 'button' }, label),
    h('p', { class: 'hint', id: `${id}-hint` }, hint, ' You can also drop it here.'), name);
  /** @param {File | undefined} file */
  const take = (file) => {
    if (!file) return;
    name.textContent = `${file.name} (${bytes(file.size)})`;
    onFile(file);
  };
  input.addEventListener('change', () => take(input.files?.[0]));
  zone.addEventListener('dragover', (event) => { event.preventDefault(); zone.classList.add('dragged-over'); });
  zone.addEventListener('dragleave', () => zone.classList.remove('dragged-over'));
  zone.addEventListener('drop', (event) => {
    event.preventDefault();
    zone.classList.remove('dragged-over');
    take(event.dataTransfer?.files[0]);
  });
  return zone;
}
