// Finds what is hard to see or to use on a page of ours: text that is cut off or sticks out, controls that are narrower than what is
// written on them, lines of a few characters beside empty room, sideways scrolling, and what axe-core finds.

import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';

const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

/** Text should have room for so many characters in a line. */
const FEW_CHARACTERS = 20;

/** Runs in the page. */
function layoutFaults(few) {
  const found = new Set();
  const scope = [...document.querySelectorAll('dialog[open]')].at(-1) ?? document.body;
  const viewport = document.documentElement.clientWidth;
  const drawing = document.createElement('canvas').getContext('2d');
  const named = (element) => `${element.tagName.toLowerCase()}.${element.className} “${(element.innerText || element.value || element.textContent || '').trim().slice(0, 50)}”`;
  const widthOf = (text, element) => { drawing.font = getComputedStyle(element).font; return drawing.measureText(text).width; };
  const inner = (element) => {
    const style = getComputedStyle(element);
    return element.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight);
  };
  const isShown = (element) => element.checkVisibility({ visibilityProperty: true }) && !element.closest('.visually-hidden, .skip-link, .stacked thead');
  const rectsOf = (node) => {
    const range = document.createRange();
    range.selectNodeContents(node);
    return [...range.getClientRects()].filter(({ width, height }) => width > 0 && height > 0);
  };
  const blockOf = (element) => {
    let at = element;
    while (getComputedStyle(at).display.startsWith('inline') && getComputedStyle(at).display === 'inline') at = at.parentElement;
    return at;
  };
  /** Whether a text may be longer than its place, because all of it is shown elsewhere. */
  const isElsewhere = (element) => Boolean(element.closest('[title]'));

  if (document.documentElement.scrollWidth > viewport) found.add('scrolls sideways');
  const texts = document.createTreeWalker(scope, NodeFilter.SHOW_TEXT);
  /** The own text of each block, without that of the blocks in it. */
  const blocks = new Map();
  while (texts.nextNode()) {
    const element = texts.currentNode.parentElement;
    if (!texts.currentNode.data.trim() || !isShown(element)) continue;
    const block = blockOf(element);
    const rects = rectsOf(texts.currentNode);
    const before = blocks.get(block) ?? { text: '', rects: [] };
    blocks.set(block, { text: before.text + texts.currentNode.data, rects: [...before.rects, ...rects] });
    if (isElsewhere(element)) continue;
    for (const rect of rects) {
      const box = block.getBoundingClientRect();
      if (rect.right > box.right + 1.5 || rect.left < box.left - 1.5) found.add(`sticks out: ${named(block)}`);
      if (rect.right > viewport + 1 || rect.left < -1) found.add(`outside of the window: ${named(block)}`);
      for (let around = block; around && around !== document.body; around = around.parentElement) {
        const { overflowX, overflowY } = getComputedStyle(around);
        const edge = around.getBoundingClientRect();
        const isCutX = ['hidden', 'clip'].includes(overflowX) && (rect.right > edge.right + 1 || rect.left < edge.left - 1);
        const isCutY = ['hidden', 'clip'].includes(overflowY) && (rect.bottom > edge.bottom + 3 || rect.top < edge.top - 3);
        if (isCutX || isCutY) found.add(`cut off: ${named(block)}`);
      }
    }
  }

  for (const control of scope.querySelectorAll('button, .button, select, input, textarea')) {
    if (!isShown(control)) continue;
    const text = control.matches('select') ? control.selectedOptions[0]?.text : control.placeholder;
    const arrow = control.matches('select') ? 18 : 0;
    if (control.matches('button, .button') && control.scrollWidth > control.clientWidth + 1) found.add(`narrower than its label: ${named(control)}`);
    if (text && !control.matches('textarea') && widthOf(text, control) + arrow > inner(control) + 1) found.add(`narrower than “${text}”: ${named(control)}`);
    if (control.matches('button, .button') && control.getBoundingClientRect().height > 64) found.add(`in three lines: ${named(control)}`);
  }

  const linesOf = (rects) => new Set(rects.map(({ bottom }) => Math.round(bottom / 6))).size;
  const isNarrow = (block, { text, rects }) => text.trim().length > few && inner(block) < few * widthOf('0', block) && linesOf(rects) > 1;
  const usedOf = (cell) => {
    const all = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT);
    let used = 0;
    while (all.nextNode()) used = Math.max(used, ...rectsOf(all.currentNode).map(({ width }) => width));
    return used;
  };
  /** Room that the other columns of a table do not use. */
  const roomBeside = (cell) => [...cell.parentElement.cells].filter((other) => other !== cell).reduce((room, other) => {
    const column = [...cell.closest('table').rows].map((row) => row.cells[other.cellIndex]).filter(Boolean);
    return room + Math.max(0, inner(other) - Math.max(...column.map(usedOf)));
  }, 0);
  for (const [block, own] of blocks) {
    if (block.closest('svg, pre') || !isNarrow(block, own)) continue;
    const missing = few * widthOf('0', block) - inner(block);
    const cell = block.closest('td, th');
    if (cell && !cell.closest('.stacked')) {
      if (roomBeside(cell) > missing) found.add(`a narrow column beside room: ${named(block)}`);
      continue;
    }
    block.scrollIntoView({ block: 'center' });
    const box = block.getBoundingClientRect();
    const isFree = (x) => x < viewport - 16 && document.elementFromPoint(x, box.top + box.height / 2)?.contains(block);
    // What is between two columns is no room.
    if ([0.25, 0.5, 0.75, 1].every((part) => isFree(box.right + 4 + part * (missing + 2 * few)))) found.add(`narrow beside room: ${named(block)}`);
  }
  scrollTo(0, 0);
  return [...found];
}

/** What axe-core finds. */
async function axeFaults(page) {
  return page.evaluate(async (source) => {
    if (!window.axe) (0, eval)(source);
    const { violations } = await window.axe.run(document, { resultTypes: ['violations'] });
    return violations.map(({ impact, id, help, nodes }) => `${impact} ${id}: ${help}: ${nodes[0].html.slice(0, 200)}`);
  }, axe);
}

/** What is wrong with the layout of a page as it is now. */
export const layoutFaultsOf = (page) => page.evaluate(layoutFaults, FEW_CHARACTERS);

/** What is wrong with a page as it is now. */
export const faultsOf = async (page) => [...await layoutFaultsOf(page), ...await axeFaults(page)];
