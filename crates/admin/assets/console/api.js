// @ts-check
// The admin API. Every call either returns what the service answered or throws an `ApiError` whose message can be shown.

const BASE = new URL('api/v1/', document.baseURI);
const TIMEOUT_MS = 60_000;
// A change waits until it is in force: in a cluster, for as long as a server that is away might still answer lookups.
const CHANGE_TIMEOUT_MS = 15 * 60_000;

export const OFFLINE = 'The service could not be reached. Check your connection and that contactd is running, then try again.';

/** Why a call failed: `code` is the service's own, or `offline`, `timeout`, `unreadable`; `count`: how many people it is about. */
export class ApiError extends Error {
  /**
   * @param {string} code
   * @param {string} message
   * @param {{ status?: number, retryAfter?: number | null, count?: number }} [details]
   */
  constructor(code, message, { status = 0, retryAfter = null, count = 0 } = {}) {
    super(message);
    this.code = code;
    this.status = status;
    this.retryAfter = retryAfter;
    this.count = count;
  }
}

/** @type {string | null} */
let csrfToken = null;
let whenLoggedOut = async () => false;
let whenSessionChanged = async () => false;

/** @param {string | null} token */
export const setCsrfToken = (token) => { csrfToken = token; };

/**
 * `loggedOut` is asked when the session has ended, `sessionChanged` when another tab has begun a new one. If they return true,
 * the call is made once more.
 * @param {{ loggedOut: () => Promise<boolean>, sessionChanged: () => Promise<boolean> }} recovery
 */
export const recoverWith = ({ loggedOut, sessionChanged }) => {
  whenLoggedOut = loggedOut;
  whenSessionChanged = sessionChanged;
};

/**
 * The address of a path such as `/tokens/{id}`, whose parameters are in `path`.
 * @param {string} template
 * @param {{ path?: Record<string, string>, query?: Record<string, any> }} [place]
 */
function addressOf(template, { path = {}, query = {} } = {}) {
  const filled = template.replace(/\{(\w+)\}/g, (_, name) => encodeURIComponent(path[name]));
  const url = new URL(filled.slice(1), BASE);
  for (const [name, text] of Object.entries(query)) {
    if (text !== undefined && text !== null && text !== '') url.searchParams.set(name, text);
  }
  return url.href;
}

/**
 * The address of something to download.
 * @type {Address}
 */
export const address = (path, ...[place]) => addressOf(path, place);

/**
 * @param {string} method
 * @param {string} url
 * @param {{ body?: any, headers?: Record<string, string>, signal?: AbortSignal }} options
 * @returns {Promise<{ response: Response, text: string }>}
 */
async function send(method, url, { body, headers, signal }) {
  /** @type {Record<string, string>} */
  const own = { Accept: 'application/json', ...headers };
  if (csrfToken && method !== 'GET') own['X-Contactd-Csrf'] = csrfToken;
  const isRaw = body instanceof Blob || typeof body === 'string';
  if (body !== undefined && !isRaw) own['Content-Type'] = 'application/json';
  const most = method === 'GET' ? TIMEOUT_MS : CHANGE_TIMEOUT_MS;
  const timeout = AbortSignal.timeout(most);
  try {
    const response = await fetch(url, {
      method, headers: own, cache: 'no-store', credentials: 'same-origin', redirect: 'error',
      body: body === undefined || isRaw ? body : JSON.stringify(body),
      signal: signal ? AbortSignal.any([signal, timeout]) : timeout,
    });
    // The connection may break in the middle of the answer, too.
    return { response, text: await response.text() };
  } catch (error) {
    if (signal?.aborted) throw error;
    throw error instanceof DOMException && error.name === 'TimeoutError'
      ? new ApiError('timeout', `There was no answer within ${most / 1000} seconds. It may still have been done: look before you try again.`)
      : new ApiError('offline', OFFLINE);
  }
}

/**
 * @param {Response} response
 * @param {string} text
 */
function errorOf(response, text) {
  const retryAfter = Number(response.headers.get('retry-after')) || null;
  const details = { status: response.status, retryAfter };
  try {
    const { status, message, count } = JSON.parse(text);
    return new ApiError(String(status), String(message), { ...details, count });
  } catch {
    return new ApiError('unreadable', `The service answered ${response.status}, without saying why. Its log may say more.`, details);
  }
}

/**
 * Makes a call, and returns the JSON of the answer or, with `as: 'text'`, its text.
 * @param {string} method
 * @param {string} template
 * @param {Sending & { path?: any, query?: any, body?: any, as?: 'json' | 'text' }} [options]
 * @returns {Promise<any>}
 */
async function call(method, template, { path, query, as = 'json', quiet = false, ...options } = {}) {
  const url = addressOf(template, { path, query });
  for (let attempt = 1; ; attempt += 1) {
    const { response, text } = await send(method, url, options);
    if (response.ok) {
      if (response.status === 204) return null;
      return as === 'text' ? text : JSON.parse(text);
    }
    const error = errorOf(response, text);
    const recover = error.code === 'unauthorized' ? whenLoggedOut : error.code === 'csrf' ? whenSessionChanged : null;
    if (quiet || attempt > 1 || !recover || !(await recover())) throw error;
  }
}

/** @type {Read} */
export const get = (path, ...[options]) => call('GET', path, options);
/** @type {Change<'POST'>} */
export const post = (path, body, ...[options]) => call('POST', path, { body: body ?? {}, ...options });
/** @type {Change<'PATCH'>} */
export const patch = (path, body, ...[options]) => call('PATCH', path, { body, ...options });
/** @type {Change<'DELETE'>} */
export const remove = (path, body, ...[options]) => call('DELETE', path, { body, ...options });

/**
 * The access report as a page of its own.
 * @param {Api.ReportAsked} body
 * @returns {Promise<string>}
 */
export const reportAsHtml = (body) => call('POST', '/people/report', { body, headers: { Accept: 'text/html' }, as: 'text' });

/**
 * Sends a file. `fetch` does not tell how much has been sent, so this uses XMLHttpRequest.
 * @param {File} file
 * @param {{ onProgress: (loaded: number, total: number) => void, signal: AbortSignal }} options
 * @returns {Promise<Api.UploadShown>}
 */
export function upload(file, { onProgress, signal }) {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    request.open('POST', addressOf('/uploads'));
    request.responseType = 'text';
    request.setRequestHeader('Accept', 'application/json');
    request.setRequestHeader('Content-Type', 'application/octet-stream');
    request.setRequestHeader('X-File-Name', encodeURIComponent(file.name));
    if (csrfToken) request.setRequestHeader('X-Contactd-Csrf', csrfToken);
    request.upload.addEventListener('progress', ({ loaded, total }) => onProgress(loaded, total));
    request.addEventListener('error',
      () => reject(new ApiError('offline', 'The connection broke while the file was sent. Nothing was loaded. Send it again.')));
    request.addEventListener('abort', () => reject(new ApiError('cancelled', 'Sending was stopped. Nothing was loaded.')));
    request.addEventListener('load', () => {
      /** @type {any} */
      let answer = {};
      try { answer = JSON.parse(request.responseText); } catch { /* answered below */ }
      if (request.status >= 200 && request.status < 300) resolve(answer);
      else reject(new ApiError(answer.status ?? 'unreadable', answer.message ?? `The service answered ${request.status}.`,
        { status: request.status }));
    });
    signal.addEventListener('abort', () => request.abort());
    request.send(file);
  });
}
