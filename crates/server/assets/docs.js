// The documentation page: reads openapi-1.1.json, renders it, and sends requests from the "Try it" panels.
// All text goes in through the DOM as text. The token lives in its input field and nowhere else.

const TIMEOUT_MS = 30_000;
const MAX_REF_DEPTH = 16;
const MAX_FIELD_DEPTH = 4;
// Shown first, in this order, with every answer; the rest is folded away.
const NOTABLE_HEADERS = [
  'x-invalid-reason', 'x-contactd-sandbox', 'x-request-id', 'retry-after', 'ratelimit', 'ratelimit-policy', 'www-authenticate',
  'allow', 'content-type', 'cache-control',
];
// What the sandbox answers differently: profiles whose address ends like this.
const SANDBOX_SLUGS = ['sandbox-hit', 'sandbox-miss', 'sandbox-rate', 'sandbox-quota', 'sandbox-busy', 'sandbox-error'];
const REASON_PHRASES = {
  200: 'OK', 400: 'Bad Request', 401: 'Unauthorized', 404: 'Not Found', 405: 'Method Not Allowed',
  408: 'Request Timeout', 413: 'Content Too Large', 415: 'Unsupported Media Type', 429: 'Too Many Requests',
  500: 'Internal Server Error', 503: 'Service Unavailable',
};

const byId = (id) => document.getElementById(id);
const baseUrl = new URL('.', location.href).href.replace(/\/$/, '');
let api = {};

// ---------------------------------------------------------------- DOM helpers

/** Makes an element. `props`: attributes, or listeners under `onclick` and the like. Empty children are skipped. */
function h(tag, props, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(props ?? {})) {
    if (name.startsWith('on')) element.addEventListener(name.slice(2), value);
    else if (value === true) element.setAttribute(name, '');
    else if (value !== undefined && value !== null && value !== false) element.setAttribute(name, value);
  }
  element.append(...children.flat(Infinity).filter((child) => child || child === 0));
  return element;
}

/** A table that stacks on narrow screens; explicit roles keep it a table for assistive technology then. */
function table(caption, columns, rows) {
  const cell = (content, i) => h('td', { role: 'cell', 'data-label': columns[i] }, h('div', null, content));
  return h('table', { role: 'table', 'aria-label': caption },
    h('thead', { role: 'rowgroup' },
      h('tr', { role: 'row' }, columns.map((name) => h('th', { role: 'columnheader', scope: 'col' }, name)))),
    h('tbody', { role: 'rowgroup' },
      rows.map(({ id, cells }) => h('tr', { role: 'row', id }, cells.map(cell)))));
}

/** The little of Markdown that descriptions use: paragraphs, lists, `code`, **bold**, [links](https://…). */
function prose(text) {
  return String(text ?? '').split(/\n\s*\n/).map((block) => block.trim()).filter(Boolean).map((block) => {
    if (/^[-*] /.test(block)) {
      return h('ul', null, block.split(/\n(?=\s*[-*] )/).map((item) => h('li', null, inline(item.replace(/^\s*[-*] /, '')))));
    }
    return h('p', null, inline(block));
  });
}

function inline(text) {
  const parts = String(text ?? '').split(/(`[^`]+`|\*\*[^*]+\*\*|\[[^\]]+\]\([^\s)]+\))/);
  return parts.map((part, i) => {
    if (i % 2 === 0) return part;
    if (part[0] === '`') return h('code', null, part.slice(1, -1));
    if (part[0] === '*') return h('strong', null, inline(part.slice(2, -2)));
    const [, label, href] = part.match(/^\[(.+?)\]\((.+)\)$/);
    return /^(https?:|#|[\w./-]+$)/i.test(href) ? h('a', { href, rel: 'noreferrer' }, label) : label;
  });
}

/** JSON (a value) as an indented, coloured block. */
function jsonBlock(value) {
  const text = JSON.stringify(value, null, 2);
  const code = h('code');
  const tokens = /("(?:[^"\\]|\\.)*")(\s*:)?|\b(?:true|false|null)\b|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g;
  let end = 0;
  for (const match of text.matchAll(tokens)) {
    const kind = !match[1] ? 'json-literal' : match[2] ? 'json-key' : 'json-string';
    code.append(text.slice(end, match.index), h('span', { class: kind }, match[1] ?? match[0]), match[2] ?? '');
    end = match.index + match[0].length;
  }
  code.append(text.slice(end));
  return h('pre', null, code);
}

/** Copies what `source` shows. Without the clipboard API (plain http, not localhost) falls back to a selection. */
function copyButton(source, what) {
  const button = h('button', { type: 'button', class: 'quiet', 'aria-label': `Copy ${what}` }, 'Copy');
  const said = h('span', { role: 'status', class: 'copy-status' });
  button.addEventListener('click', async () => {
    let copied = false;
    try {
      await navigator.clipboard.writeText(source.textContent);
      copied = true;
    } catch {
      getSelection().selectAllChildren(source);
      copied = document.execCommand('copy');
    }
    said.textContent = copied ? 'Copied' : 'Selected: press Ctrl+C or ⌘C';
    setTimeout(() => { said.textContent = ''; }, 2500);
  });
  return h('span', { class: 'copy-button' }, said, button);
}

// ---------------------------------------------------------------- reading the description

/** Follows local $refs; what stands beside a $ref wins over what it points to. */
function deref(node, depth = 0) {
  if (typeof node?.$ref !== 'string') return node ?? {};
  if (!node.$ref.startsWith('#/') || depth > MAX_REF_DEPTH) return {};
  let target = api;
  for (const step of node.$ref.slice(2).split('/')) {
    target = target?.[decodeURIComponent(step).replaceAll('~1', '/').replaceAll('~0', '~')];
  }
  const { $ref, ...beside } = node;
  return { ...deref(target, depth + 1), ...beside };
}

/** A schema with allOf, oneOf and anyOf folded into its own properties; required: what every alternative requires. */
function flatten(schema, depth = 0) {
  const own = deref(schema);
  if (depth > MAX_REF_DEPTH) return own;
  const fold = (list) => (list ?? []).map((part) => flatten(part, depth + 1));
  const all = fold(own.allOf);
  const any = fold(own.oneOf ?? own.anyOf);
  const everywhere = (any[0]?.required ?? []).filter((name) => any.every((part) => part.required?.includes(name)));
  return {
    ...own,
    properties: Object.assign({}, ...any.map((p) => p.properties), ...all.map((p) => p.properties), own.properties),
    required: [...(own.required ?? []), ...all.flatMap((part) => part.required ?? []), ...everywhere],
  };
}

function typeName(schema) {
  const types = [schema.type ?? (schema.properties ? 'object' : 'const' in schema ? typeof schema.const : 'any')].flat();
  const name = types.map((type) => (type === 'array' ? `array of ${typeName(deref(schema.items))}` : type)).join(' or ');
  return schema.format ? `${name} (${schema.format})` : name;
}

function constraints(schema) {
  const { minLength: min, maxLength: max } = schema;
  return [
    'const' in schema && ['always ', h('code', null, JSON.stringify(schema.const))],
    schema.enum && ['one of ', schema.enum.flatMap((value, i) => [i ? ', ' : '', h('code', null, String(value))])],
    (min || max) && `${[min && `at least ${min}`, max && `at most ${max.toLocaleString('en')}`].filter(Boolean).join(', ')} characters`,
    schema.minimum !== undefined && `from ${schema.minimum}`,
    schema.maximum !== undefined && `up to ${schema.maximum}`,
    schema.pattern && ['pattern ', h('code', null, schema.pattern)],
  ].filter(Boolean);
}

/** The fields of an object schema as table rows; nested objects as `outer.inner`. */
function fieldRows(schema, prefix = '', depth = 0) {
  const { properties, required } = flatten(schema);
  return Object.entries(properties).flatMap(([name, property]) => {
    const field = deref(property);
    const path = prefix + name;
    const rules = constraints(field).map((rule) => h('span', { class: 'second-line' }, rule));
    const row = { cells: [h('code', null, path), typeName(field), required.includes(name) ? 'yes' : 'no', [prose(field.description), rules]] };
    const inner = field.items ? [field.items, `${path}[].`] : [field, `${path}.`];
    return depth < MAX_FIELD_DEPTH ? [row, ...fieldRows(inner[0], inner[1], depth + 1)] : [row];
  });
}

function fieldTable(schema, caption) {
  const rows = fieldRows(schema);
  return rows.length > 0 && table(caption, ['Field', 'Type', 'Required', 'Description'], rows);
}

const jsonMedia = (content) => content?.['application/json'] ?? Object.entries(content ?? {}).find(([type]) => /json/.test(type))?.[1];

/** Every example of a media type: its own (one or a map), else its schema's, else one put together from the fields. */
function examplesOf(media) {
  if (!media) return [];
  if (media.examples) {
    return Object.entries(media.examples).map(([name, example]) => ({ name, ...deref(example) })).filter((e) => 'value' in e);
  }
  if ('example' in media) return [{ value: media.example }];
  const schema = flatten(media.schema);
  if (Array.isArray(schema.examples)) return schema.examples.map((value) => ({ value }));
  if ('example' in schema) return [{ value: schema.example }];
  const fields = Object.entries(schema.properties).map(([name, property]) => {
    const { const: fixed, examples, example, default: standard } = deref(property);
    return [name, fixed ?? examples?.[0] ?? example ?? standard];
  }).filter(([, value]) => value !== undefined);
  return fields.length ? [{ value: Object.fromEntries(fields) }] : [];
}

/** The codes that the body's `status` field can hold: a constant and the examples, or else the enumeration. */
function statusCodes(media) {
  if (!media) return [];
  const schema = deref(flatten(media.schema).properties.status);
  const codes = [schema.const, ...examplesOf(media).map((example) => example.value?.status)].filter((code) => typeof code === 'string');
  return [...new Set(codes.length ? codes : schema.enum ?? [])];
}

function operations() {
  const methods = ['get', 'post', 'put', 'patch', 'delete', 'head', 'options'];
  return Object.entries(api.paths ?? {}).flatMap(([path, item]) =>
    methods.filter((method) => item?.[method]).map((method) => {
      const operation = item[method];
      const media = jsonMedia(deref(operation.requestBody).content);
      return {
        ...operation, path, method, media,
        id: (operation.operationId ?? `${method}${path}`).replace(/[^\w-]+/g, '-'),
        tryable: method === 'post' && Boolean(media),
      };
    }));
}

// ---------------------------------------------------------------- rendering

function exampleFigures(media) {
  return examplesOf(media).map(({ name, summary, value }) =>
    h('figure', null, h('figcaption', null, inline(summary ?? name ?? 'Example')), jsonBlock(value)));
}

function statusBadge(status) {
  return h('span', { class: `status status-${String(status)[0]}xx` }, String(status));
}

function responseDetails(op, status, node) {
  const response = deref(node);
  const media = jsonMedia(response.content);
  const codes = statusCodes(media);
  const headers = Object.entries(response.headers ?? {}).map(([name, header]) => {
    const { description, schema } = deref(header);
    return { cells: [h('code', null, name), [prose(description ?? deref(schema).description ?? typeName(deref(schema)))]] };
  });
  const otherTypes = Object.keys(response.content ?? {}).filter((type) => !/json/.test(type));
  const label = `${op.id} ${status}`;
  return h('details', { class: 'response', id: `${op.id}-${status}`, open: status === '200' && op.tryable },
    h('summary', null,
      statusBadge(status), ' ',
      h('span', { class: 'error-codes' },
        codes.map((code, i) => [i ? ' ' : '', h('code', null, code)]),
        !codes.length && media && Number(status) >= 400 && h('span', { class: 'note' }, 'no status field')),
      ' ', h('span', { class: 'response-summary' }, inline(String(response.description ?? '').split(/\n\s*\n/)[0]))),
    h('div', { class: 'response-body' },
      prose(String(response.description ?? '').split(/\n\s*\n/).slice(1).join('\n\n')),
      media && [fieldTable(media.schema, `${label} body`), exampleFigures(media)],
      otherTypes.length > 0 && h('p', { class: 'note' }, `Content type: ${otherTypes.join(', ')}`),
      headers.length > 0 && [h('h5', null, 'Response headers'), table(`${label} headers`, ['Header', 'Meaning'], headers)]));
}

function responseList(op) {
  const responses = Object.entries(op.responses ?? {});
  if (!responses.length) return null;
  const list = h('div', { class: 'responses' }, responses.map(([status, node]) => responseDetails(op, status, node)));
  const all = () => [...list.querySelectorAll('details')];
  const toggle = h('button', {
    type: 'button', class: 'quiet',
    onclick: () => { const open = all().some((d) => !d.open); all().forEach((d) => { d.open = open; }); },
  }, 'Open or close all');
  return h('div', { class: 'page-section' }, h('div', { class: 'section-head' }, h('h4', null, 'Responses'), responses.length > 1 && toggle), list);
}

function operationSection(op) {
  return h('section', { class: op.tryable ? 'operation has-try-panel' : 'operation', id: op.id, 'aria-labelledby': `${op.id}-title` },
    h('div', { class: 'operation-head' },
      h('h3', { id: `${op.id}-title` }, inline(op.summary ?? op.operationId ?? op.path)),
      h('p', { class: 'route' }, h('span', { class: `method ${op.method}` }, op.method.toUpperCase()), ' ', h('code', null, op.path)),
      op.deprecated && h('p', { class: 'note' }, 'Deprecated.'),
      prose(op.description)),
    op.media && h('div', { class: 'page-section' },
      h('h4', null, 'Request body'),
      fieldTable(op.media.schema, `${op.id} request body`),
      exampleFigures(op.media)),
    op.tryable && tryPanel(op),
    responseList(op));
}

function reasonsSection(reasons) {
  return h('section', { id: 'invalid-reasons', 'aria-labelledby': 'invalid-reasons-title' },
    h('h2', { id: 'invalid-reasons-title' }, 'Why a profileUrl is refused ', h('span', { class: 'heading-note' }, '(', h('code', null, 'X-Invalid-Reason'), ')')),
    h('p', null, 'A refusal is always a 400 with ', h('code', null, 'invalid_profile_url'), '. This response header says which rule it broke.'),
    table('Reasons', ['Code', 'Meaning', 'What to do'], reasons.map(({ code, meaning, hint }) =>
      ({ id: `reason-${code}`, cells: [h('code', null, String(code)), h('p', null, inline(meaning)), h('p', null, inline(hint))] }))));
}

function overviewSection() {
  const { title, version, description, summary } = api.info ?? {};
  const bearer = Object.values(api.components?.securitySchemes ?? {}).map((node) => deref(node).description).find(Boolean);
  return h('section', { id: 'overview', 'aria-labelledby': 'title' },
    h('h1', { id: 'title' }, title ?? 'Contact lookup API'),
    h('p', { class: 'facts' },
      version && h('span', null, 'Version ', h('strong', { id: 'version' }, version)),
      h('span', null, 'Base address ', h('code', { id: 'base' }, baseUrl)),
      h('span', null, h('a', { href: 'openapi-1.1.json' }, 'openapi-1.1.json'), ' · ', h('a', { href: 'openapi-1.1.yaml' }, 'openapi-1.1.yaml'))),
    h('div', { class: 'lead' }, prose(description ?? summary)),
    bearer && [h('h2', { id: 'authentication' }, 'Authentication'), prose(bearer)]);
}

function tableOfContents(lookups, others, reasons) {
  const link = (id, ...text) => h('li', null, h('a', { href: `#${id}` }, ...text));
  const entry = (op) => link(op.id, h('span', { class: `method ${op.method}` }, op.method.toUpperCase()), ' ',
    h('span', null, op.path.replace(/^\/api\//, '')));
  return h('ul', null,
    link('overview', 'Overview'),
    lookups.map(entry),
    reasons.length > 0 && link('invalid-reasons', 'Refused URLs'),
    others.map(entry));
}

function render() {
  const all = operations();
  const lookups = all.filter((op) => op.tryable);
  const others = all.filter((op) => !op.tryable);
  const reasons = Array.isArray(api['x-invalid-reasons']) ? api['x-invalid-reasons'] : [];
  const { title, version } = api.info ?? {};

  if (title) document.title = version ? `${title} ${version}` : title;
  if (version) { byId('brand-version').textContent = version; byId('brand-version').hidden = false; }
  byId('token-form').hidden = false;
  byId('toc').append(tableOfContents(lookups, others, reasons));
  const group = (id, name, ops) => ops.length > 0 && [h('h2', { id }, name), ops.map(operationSection)];
  byId('content').append(...[
    overviewSection(),
    group('lookups', 'Lookups', lookups),
    reasons.length > 0 && reasonsSection(reasons),
    group('other', 'Other endpoints', others),
  ].flat(Infinity).filter(Boolean));
}

// ---------------------------------------------------------------- Try it

/** One word for a POSIX shell. */
const shellQuote = (text) => (/^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`);

function curlLine(url, body) {
  return [
    'curl -sS',
    shellQuote(url),
    '-H "Authorization: Bearer $CONTACTD_TOKEN"',
    "-H 'Content-Type: application/json'",
    `-d ${shellQuote(body)}`,
  ].join(' \\\n  ');
}

/** Sends the lookup; gives what came back, or throws an Error whose message is fit to show. */
async function send(url, body) {
  const token = byId('token').value.trim();
  if (/[^\x21-\x7e]/.test(token)) throw new Error('Not sent: the token holds a space or a character that no token has. Paste it again.');
  const headers = { 'Content-Type': 'application/json' };
  if (token) headers.Authorization = `Bearer ${token}`;
  const started = performance.now();
  try {
    const response = await fetch(url, {
      method: 'POST', headers, body, cache: 'no-store', credentials: 'omit', redirect: 'error', signal: AbortSignal.timeout(TIMEOUT_MS),
    });
    const text = await response.text();
    return { response, text, ms: performance.now() - started };
  } catch (error) {
    throw new Error(error.name === 'TimeoutError'
      ? `No answer after ${TIMEOUT_MS / 1000} seconds. The service may be overloaded; try again.`
      : `No answer: the service could not be reached, or the connection broke. Check that it is running at ${baseUrl}, then send again.`);
  }
}

function headerList(pairs) {
  return h('dl', { class: 'headers' }, pairs.map(([name, value]) => h('div', null, h('dt', null, `${name}: `), h('dd', null, value))));
}

/** What an answer means, in words: from the description's text for that status, and the reason's hint. */
function explanation(op, response) {
  const documented = op.responses?.[response.status];
  const reasonCode = response.headers.get('x-invalid-reason');
  const reason = reasonCode && (api['x-invalid-reasons'] ?? []).find?.(({ code }) => code === reasonCode);
  if (reason) return h('p', null, h('a', { href: `#reason-${reason.code}` }, h('code', null, reason.code)), ' ', inline([reason.meaning, reason.hint].filter(Boolean).join(' ')));
  if (response.ok || !documented) return null;
  return h('p', null, inline(String(deref(documented).description ?? '').split(/\n\s*\n/)[0]), ' ', h('a', { href: `#${op.id}-${response.status}` }, 'More'));
}

function answerView(op, { response, text }) {
  const pairs = [...response.headers];
  const rank = ([name]) => NOTABLE_HEADERS.indexOf(name);
  const notable = pairs.filter((pair) => rank(pair) >= 0).sort((a, b) => rank(a) - rank(b));
  const rest = pairs.filter((pair) => rank(pair) < 0);
  let body;
  try {
    body = jsonBlock(JSON.parse(text));
  } catch {
    body = h('pre', null, h('code', null, text || '(empty body)'));
  }
  return [
    explanation(op, response),
    h('div', { class: 'section-head' }, h('h5', null, 'Body'), copyButton(body, 'the response body')), body,
    h('h5', null, 'Headers'), headerList(notable),
    rest.length > 0 && h('details', { class: 'foldout' }, h('summary', null, `${rest.length} more headers`), headerList(rest)),
  ].flat().filter(Boolean);
}

/** What the form of an operation asks for: a profile URL, or else the whole body. */
function tryField(op, id) {
  const values = examplesOf(op.media).map((example) => example.value);
  const plain = { autocomplete: 'off', autocapitalize: 'off', spellcheck: 'false' };
  if (!flatten(op.media.schema).properties.profileUrl) {
    const text = JSON.stringify(values[0] ?? {}, null, 2);
    const input = h('textarea', { id: id('body'), rows: text.split('\n').length, ...plain }, text);
    return { label: 'Request body', input, requestBody: () => input.value };
  }
  const samples = [...new Set(values.map((value) => value?.profileUrl).filter((value) => typeof value === 'string'))];
  const input = h('input', {
    id: id('url'), type: 'text', inputmode: 'url', ...plain,
    value: samples[0] ?? '', placeholder: 'https://www.linkedin.com/in/…', list: samples.length > 1 && id('samples'),
  });
  const list = samples.length > 1 && h('datalist', { id: id('samples') }, samples.map((value) => h('option', { value })));
  return { label: 'profileUrl', input, list: [list, sandboxChoice(input)], requestBody: () => JSON.stringify({ profileUrl: input.value }) };
}

/** Profiles for a token of the sandbox. Shown while the page has one. */
function sandboxChoice(input) {
  const choose = (slug) => h('button', {
    type: 'button', class: 'quiet',
    onclick: () => {
      input.value = `https://www.linkedin.com/in/${slug}`;
      input.dispatchEvent(new Event('input'));
    },
  }, slug);
  return h('p', { class: 'note sandbox-choice', hidden: !hasSandboxToken() }, 'The sandbox makes up an answer for ',
    SANDBOX_SLUGS.map((slug, i) => [i > 0 && ' ', choose(slug)]), ' with anything after it; every other profile is 404.');
}

function tryPanel(op) {
  const url = new URL(op.path.replace(/^\//, ''), location.href).href;
  const id = (name) => `${op.id}-${name}`;
  const { label, input, list, requestBody } = tryField(op, id);
  const button = h('button', { type: 'submit', class: 'primary' }, 'Send');
  const curl = h('code');
  const line = h('p', { class: 'result-line', role: 'status' });
  const answer = h('div', { class: 'answer' });
  const showCurl = () => { curl.textContent = curlLine(url, requestBody()); };
  let busy = false;

  async function submit(event) {
    event.preventDefault();
    if (busy) return;
    busy = true;
    button.setAttribute('aria-disabled', 'true');
    line.replaceChildren('Sending…');
    answer.replaceChildren();
    try {
      const result = await send(url, requestBody());
      const { status, statusText } = result.response;
      const took = result.ms < 10 ? result.ms.toFixed(1) : String(Math.round(result.ms));
      line.replaceChildren(statusBadge(status), ` ${statusText || REASON_PHRASES[status] || ''} `, h('span', { class: 'duration' }, `${took} ms`));
      answer.replaceChildren(...answerView(op, result));
    } catch (error) {
      line.replaceChildren(h('span', { class: 'error-text' }, error.message));
    } finally {
      busy = false;
      button.removeAttribute('aria-disabled');
    }
  }

  input.addEventListener('input', showCurl);
  showCurl();
  return h('div', { class: 'try-panel', role: 'group', 'aria-labelledby': id('try') },
    h('h4', { id: id('try') }, 'Try it'),
    h('form', { autocomplete: 'off', onsubmit: submit },
      h('label', { for: input.id }, label),
      h('div', { class: 'field-with-button' }, input, button),
      list),
    h('div', { class: 'result' }, line, answer),
    h('div', { class: 'section-head' }, h('h5', null, 'As a command'), copyButton(curl, 'the curl command')),
    h('pre', { class: 'curl' }, curl));
}

// ---------------------------------------------------------------- the page as a whole

const hasSandboxToken = () => byId('token').value.trim().startsWith('ctd_test_');

function setUpToken() {
  const input = byId('token');
  const note = byId('token-note');
  const usual = note.textContent;
  input.addEventListener('input', () => {
    const isSandbox = hasSandboxToken();
    note.textContent = isSandbox ? 'For tests: the sandbox makes its answers up.' : usual;
    for (const choice of document.querySelectorAll('.sandbox-choice')) choice.hidden = !isSandbox;
  });
  const toggle = byId('token-toggle');
  byId('token-form').addEventListener('submit', (event) => event.preventDefault());
  toggle.addEventListener('click', () => {
    const show = input.type === 'password';
    input.type = show ? 'text' : 'password';
    toggle.textContent = show ? 'Hide' : 'Show';
    toggle.setAttribute('aria-pressed', String(show));
  });
}

/** Opens what the address's #fragment points to, and goes there. */
function followHash() {
  const target = location.hash.length > 1 && byId(decodeURIComponent(location.hash.slice(1)));
  if (!target) return;
  if (target.tagName === 'DETAILS') target.open = true;
  target.scrollIntoView();
}

/** Marks in the sidebar the section being read. */
function followScrolling() {
  const links = new Map([...byId('toc').querySelectorAll('a')].map((a) => [a.hash.slice(1), a]));
  const seen = new Set();
  const observer = new IntersectionObserver((entries) => {
    for (const { target, isIntersecting } of entries) seen[isIntersecting ? 'add' : 'delete'](target.id);
    const current = [...links.keys()].find((id) => seen.has(id));
    if (!current) return;
    links.forEach((a, id) => (id === current ? a.setAttribute('aria-current', 'location') : a.removeAttribute('aria-current')));
  }, { rootMargin: '-20% 0px -60% 0px' });
  links.forEach((_, id) => { if (byId(id)) observer.observe(byId(id)); });
}

/** Paper has no folds: everything is open while printing. */
function openForPrint() {
  let closed = [];
  addEventListener('beforeprint', () => {
    closed = [...document.querySelectorAll('details:not([open])')];
    closed.forEach((details) => { details.open = true; });
  });
  addEventListener('afterprint', () => closed.forEach((details) => { details.open = false; }));
}

async function start() {
  setUpToken();
  const loading = byId('loading');
  loading.hidden = false;
  try {
    const response = await fetch('openapi-1.1.json', { credentials: 'omit' });
    if (!response.ok) throw new Error(`the service answered ${response.status}`);
    api = await response.json();
    render();
  } catch (error) {
    loading.remove();
    byId('content').append(h('section', { class: 'problem', role: 'alert' },
      h('h1', null, 'The description could not be shown'),
      h('p', null, `Reading openapi-1.1.json failed (${error.message}). Reload the page, or open the file itself: `,
        h('a', { href: 'openapi-1.1.json' }, 'openapi-1.1.json'), ' or ', h('a', { href: 'openapi-1.1.yaml' }, 'openapi-1.1.yaml'), '.')));
    return;
  }
  loading.remove();
  followScrolling();
  openForPrint();
  addEventListener('hashchange', followHash);
  followHash();
}

start();
