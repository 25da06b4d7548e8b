// The admin API. Every call either returns what the service answered or throws an `ApiError` whose message can be shown.

const BASE = new URL('api/v1/', document.baseURI);
const TIMEOUT_MS = 60_000;
// A change waits until it is in force: in a cluster, for as long as a server that is away might still answer lookups.
const CHANGE_TIMEOUT_MS = 15 * 60_000;

/** Why a call failed: `code` is the service's own, or `offline`, `timeout`, `unreadable`; `count`: how many people it is about. */
export class ApiError extends Error {
  constructor(code, message, { status = 0, retryAfter = null, count = null } = {}) {
    super(message);
    this.code = code;
    this.status = status;
    this.retryAfter = retryAfter;
    this.count = count;
  }
}

let csrfToken = null;
let whenLoggedOut = async () => false;
let whenSessionChanged = async () => false;

export const setCsrfToken = (token) => { csrfToken = token; };

/**
 * `loggedOut` is asked when the session has ended, `sessionChanged` when another tab has begun a new one. If they return true,
 * the call is made once more.
 */
export const recoverWith = ({ loggedOut, sessionChanged }) => {
  whenLoggedOut = loggedOut;
  whenSessionChanged = sessionChanged;
};

/** The address of an API path, for links that download something. */
export function address(path, query = {}) {
  const url = new URL(path.replace(/^\//, ''), BASE);
  for (const [name, text] of Object.entries(query)) {
    if (text !== undefined && text !== null && text !== '') url.searchParams.set(name, text);
  }
  return url.href;
}

/** A path with its parts escaped: at`/tokens/${id}`. */
export const at = (fixed, ...parts) => String.raw({ raw: fixed }, ...parts.map((part) => encodeURIComponent(part)));

async function send(method, url, { body, headers, signal }) {
  const own = { Accept: 'application/json', ...headers };
  if (csrfToken && method !== 'GET') own['X-Contactd-Csrf'] = csrfToken;
  const isRaw = body instanceof Blob || typeof body === 'string';
  if (body !== undefined && !isRaw) own['Content-Type'] = 'application/json';
  const most = method === 'GET' ? TIMEOUT_MS : CHANGE_TIMEOUT_MS;
  const timeout = AbortSignal.timeout(most);
  try {
    return await fetch(url, {
      method, headers: own, cache: 'no-store', credentials: 'same-origin', redirect: 'error',
      body: body === undefined || isRaw ? body : JSON.stringify(body),
      signal: signal ? AbortSignal.any([signal, timeout]) : timeout,
    });
  } catch (error) {
    if (signal?.aborted) throw error;
    throw error.name === 'TimeoutError'
      ? new ApiError('timeout', `There was no answer within ${most / 1000} seconds. It may still have been done: look before you try again.`)
      : new ApiError('offline', 'The service could not be reached. Check your connection and that contactd is running, then try again.');
  }
}

async function fault(response) {
  const retryAfter = Number(response.headers.get('retry-after')) || null;
  const details = { status: response.status, retryAfter };
  try {
    const { status, message, count } = await response.json();
    return new ApiError(String(status), String(message), { ...details, count });
  } catch {
    return new ApiError('unreadable', `The service answered ${response.status}, without saying why. Its log may say more.`, details);
  }
}

/** Makes a call. With `as: 'text'`, returns the text of the answer. `quiet`: does not ask to log in again. */
async function call(method, path, { query, as = 'json', quiet = false, ...options } = {}) {
  const url = address(path, query);
  for (let attempt = 1; ; attempt += 1) {
    const response = await send(method, url, options);
    if (response.ok) {
      if (response.status === 204) return null;
      return as === 'text' ? response.text() : response.json();
    }
    const error = await fault(response);
    const recover = error.code === 'unauthorized' ? whenLoggedOut : error.code === 'csrf' ? whenSessionChanged : null;
    if (quiet || attempt > 1 || !recover || !(await recover())) throw error;
  }
}

export const get = (path, options) => call('GET', path, options);
export const post = (path, body = {}, options) => call('POST', path, { body, ...options });
export const patch = (path, body, options) => call('PATCH', path, { body, ...options });
export const remove = (path, body, options) => call('DELETE', path, { body, ...options });

/** Sends a file. `fetch` does not tell how much has been sent, so this uses XMLHttpRequest. */
export function upload(path, file, { onProgress, signal }) {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    request.open('POST', address(path));
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
      let answer = {};
      try { answer = JSON.parse(request.responseText); } catch { /* answered below */ }
      if (request.status >= 200 && request.status < 300) resolve(answer);
      else reject(new ApiError(answer.status ?? 'unreadable', answer.message ?? `The service answered ${request.status}.`,
        { status: request.status }));
    });
    signal?.addEventListener('abort', () => request.abort());
    request.send(file);
  });
}
