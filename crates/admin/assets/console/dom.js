// @ts-check
// Makes elements. All text goes in as text nodes, so nothing that the service sends is ever read as HTML.

const SVG = 'http://www.w3.org/2000/svg';

/**
 * An element that every page has.
 * @param {string} id
 */
export const byId = (id) => /** @type {HTMLElement} */ (document.getElementById(id));

// Characters that change the direction of the text around them, and control characters that nobody can see.
const INVISIBLE = /[\u061C\u200E\u200F\u202A-\u202E\u2066-\u2069\u0000-\u0008\u000B-\u001F\u007F]/g;

/**
 * Text as it is shown, without invisible characters that would make it look like other text.
 * @param {unknown} text
 */
export const clean = (text) => String(text).replace(INVISIBLE, '');

/**
 * @template {Element} E
 * @param {E} element
 * @param {Props | null | undefined} props
 * @param {Content[]} children
 */
function build(element, props, children) {
  for (const [name, value] of Object.entries(props ?? {})) {
    if (name.startsWith('on')) element.addEventListener(name.slice(2), value);
    else if (value === true) element.setAttribute(name, '');
    else if (value !== undefined && value !== null && value !== false) element.setAttribute(name, value);
  }
  element.append(...nodes(children));
  return element;
}

/**
 * A nested list of nodes, strings and numbers as a flat list of nodes and strings. Empty ones are skipped.
 * @param {...Content} children
 * @returns {Array<Node | string>}
 */
export const nodes = (...children) => /** @type {any[]} */ (children).flat(Infinity)
  .filter((child) => child || child === 0)
  .map((child) => (child instanceof Node ? child : clean(child)));

/**
 * Makes an element. `props`: attributes, or listeners under `onclick` and the like. Empty children are skipped.
 * @template {keyof HTMLElementTagNameMap} Tag
 * @param {Tag} tag
 * @param {Props | null} [props]
 * @param {...Content} children
 */
export const h = (tag, props, ...children) => build(document.createElement(tag), props, children);

/**
 * Makes an SVG element.
 * @template {keyof SVGElementTagNameMap} Tag
 * @param {Tag} tag
 * @param {Props | null} [props]
 * @param {...Content} children
 */
export const s = (tag, props, ...children) => build(document.createElementNS(SVG, tag), props, children);

/**
 * A button that is not in a form, or does not send it.
 * @param {Content} text
 * @param {(event: MouseEvent) => unknown} onclick
 * @param {Props} [props]
 */
export const button = (text, onclick, props) => h('button', { type: 'button', onclick, ...props }, text);

/**
 * A link that looks like a button.
 * @param {Content} text
 * @param {string} href
 * @param {Props} [props]
 */
export const linkButton = (text, href, props) => h('a', { href, class: 'button', ...props }, text);

let last = 0;

/**
 * An id that no other element has.
 * @param {string} name
 */
export const newId = (name) => {
  last += 1;
  return `${name}-${last}`;
};

/**
 * Text from the data: isolated, so that its direction does not affect the words around it.
 * @param {Content} text
 */
export const data = (text) => h('bdi', null, text);

/**
 * A profile URL, a number or an address. Never a link: the console opens nothing that others have written.
 * @param {string} text
 */
export const value = (text) => h('bdi', { class: 'value' }, text);

/**
 * Marks a button as busy while `work` runs, and ignores clicks meanwhile.
 * @template Result
 * @param {Element} element
 * @param {() => Promise<Result>} work
 */
export async function busy(element, work) {
  if (element.getAttribute('aria-disabled') === 'true') return undefined;
  element.setAttribute('aria-disabled', 'true');
  try {
    return await work();
  } finally {
    element.removeAttribute('aria-disabled');
  }
}

/**
 * Lets the browser save `blob` as a file.
 * @param {Blob} blob
 * @param {string} name
 */
export function save(blob, name) {
  const href = URL.createObjectURL(blob);
  const link = h('a', { href, download: name });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(href), 60_000);
}
