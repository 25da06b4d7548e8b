// @ts-check
// A button that copies what an element shows.

import { button, h } from './dom.js';

/**
 * Copies what `source` shows. Without the clipboard API (plain http, not localhost) it selects the text instead.
 * @param {HTMLElement} source
 * @param {string} what
 * @param {Props} [props]
 */
export function copyButton(source, what, props = { class: 'quiet' }) {
  const said = h('span', { role: 'status', class: 'copy-status' });
  const copy = button('Copy', async () => {
    let copied = false;
    try {
      await navigator.clipboard.writeText(source.textContent ?? '');
      copied = true;
    } catch {
      getSelection()?.selectAllChildren(source);
      copied = document.execCommand('copy');
    }
    copy.classList.remove('primary');
    said.textContent = copied ? 'Copied' : 'Selected: press Ctrl+C or ⌘C';
    setTimeout(() => { said.textContent = ''; }, 4000);
  }, { 'aria-label': `Copy ${what}`, ...props });
  return h('span', { class: 'copy-button' }, copy, said);
}
