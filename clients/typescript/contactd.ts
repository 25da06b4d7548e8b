/**
 * A client of contactd, the contact lookup service. One file that needs nothing but `fetch`: Node 18 or later, Deno, Bun.
 *
 *     import { Client } from 'contactd-client';
 *
 *     const client = new Client('https://contacts.example.com', token);
 *     const phone = await client.fetchPhoneNumber('https://www.linkedin.com/in/ada-quell-1a2b3c');
 *     console.log(phone?.phoneNumber ?? 'nothing on file');
 *
 * - **Nothing on file** is `null`, not an error.
 * - **Repeats.** What may pass is tried again: 429 and 503 after the time that the service names, a failed connection, a timeout and an
 *   error of the service after growing pauses. A lookup changes nothing, so a repeat does no harm, but it is on record by itself: if an
 *   answer was lost on its way, a repeat can be a second line in the service's journal and a second unit of the token's quota. All
 *   tries of a request have the same `X-Request-Id`.
 * - **Errors** are subclasses of `ContactdError`. Their texts are short and name nobody, so that they can be logged. What the service
 *   says is in `serverMessage`, which is not printed with the error; it can contain the profile URL.
 * - Redirects are not followed. A token in a web page can be read by everybody who opens it: make the calls on your server.
 */

export type Operation = 'fetchPhoneNumber' | 'fetchPersonalEmail';

/** A phone number, such as `+14155550123`, and the canonical form of the profile URL. */
export interface PhoneFound {
  readonly phoneNumber: string;
  readonly profileUrl: string;
}

/** An e-mail address, and the canonical form of the profile URL. */
export interface EmailFound {
  readonly email: string;
  readonly profileUrl: string;
}

/** What a batch asks. */
export interface Lookup {
  readonly operation: Operation;
  readonly profileUrl: string;
}

/** What became of a lookup of a batch. */
export type Result<L extends Lookup = Lookup> =
  | { readonly outcome: 'found'; readonly lookup: L; readonly found: Found<L['operation']> }
  | { readonly outcome: 'notFound'; readonly lookup: L }
  | { readonly outcome: 'error'; readonly lookup: L; readonly error: ContactdError };

type Found<O extends Operation> = O extends 'fetchPhoneNumber' ? PhoneFound : EmailFound;

export interface ClientOptions {
  /** Milliseconds to wait for a whole answer. */
  timeout?: number;
  /** How often something is tried before it is an error; in a batch, tries without any progress. */
  tries?: number;
  /** The longest time to wait because the service asks for it, in seconds. If it asks for more, it is an error at once. */
  maxWait?: number;
  /** Lookups in one request, if the operator has set `limits.batch` below 100. */
  batchSize?: number;
  /** Used instead of the global `fetch`, for a proxy or for certificates of your own authority. */
  fetch?: (url: string, init: RequestInit) => Promise<Response>;
}

export interface CallOptions {
  /** Ends the call; it is then rejected with the reason of the signal. */
  signal?: AbortSignal;
}

export interface LookupOptions extends CallOptions {
  /** The `X-Request-Id`, best a UUID. */
  requestId?: string;
}

/** A lookup was not answered. The subclass says why. */
export class ContactdError extends Error {
  /** The HTTP status, 0 if there was no answer. */
  readonly httpStatus: number;
  /** The code of the service, such as `rate_limited`; a 500 has none. */
  readonly status: string | undefined;
  /** Why exactly: for `InvalidProfileUrl` and `Unauthorized`. */
  readonly reason: string | undefined;
  /** After how many seconds it may be tried again, if the service says so. */
  readonly retryAfter: number | undefined;
  /** By this, the operator finds the request. */
  readonly requestId: string;
  // Private, so that nothing that prints errors shows it.
  readonly #serverMessage: string | undefined;

  constructor(answer: Answer) {
    const status = text(answer.body, 'status');
    const what = answer.httpStatus === 0 ? 'no answer' : `${answer.httpStatus} ${status ?? ''}`.trimEnd();
    super(
      `${what}${answer.reason === undefined ? '' : ` (${answer.reason})`}, request ${answer.requestId}`,
      answer.cause === undefined ? undefined : { cause: answer.cause },
    );
    this.name = new.target.name;
    this.httpStatus = answer.httpStatus;
    this.status = status;
    this.reason = answer.reason;
    this.retryAfter = answer.retryAfter;
    this.requestId = answer.requestId;
    this.#serverMessage = text(answer.body, 'message');
  }

  /** What the service says. It can contain the profile URL. */
  get serverMessage(): string | undefined {
    return this.#serverMessage;
  }
}

/** The service does not take the profile URL. `reason` is one of the codes of docs/api.md, such as `not_person`. */
export class InvalidProfileUrl extends ContactdError {}

/** The token is unknown, expired, revoked, or not for this operation: `reason` says which, where the service does. */
export class Unauthorized extends ContactdError {}

/** The quota of the token is used up for longer than `maxWait`. */
export class QuotaExceeded extends ContactdError {}

/** The rate of the token was used up in every try, or for longer than `maxWait`. */
export class RateLimited extends ContactdError {}

/** The service, or a proxy before it, failed or was busy in every try. */
export class ServiceError extends ContactdError {}

/** No try was answered. The error of the last one is in `cause`. */
export class ConnectionFailed extends ServiceError {}

/** An answer that no repeat changes: a wrong address, something that is not contactd, a request that is too large. */
export class UnexpectedAnswer extends ContactdError {}

const FIRST_PAUSE = 0.25; // seconds between tries, unless the service names a time
const LONGEST_PAUSE = 8;
const MOST_CHARACTERS = 60 * 1024; // of lookups in a batch that has several; one can be four bytes

/** A service and a token for it. Any number of calls may be under way at the same time. */
export class Client {
  readonly #base: string;
  readonly #token: string;
  readonly #options: Required<ClientOptions>;

  /** `baseUrl` may hold a path. `token` comes from the operator of the service, and begins with `ctd_`. */
  constructor(baseUrl: string, token: string, options: ClientOptions = {}) {
    const url = new URL(baseUrl);
    if (!/^https?:$/.test(url.protocol) || url.username !== '' || url.search !== '' || url.hash !== '') {
      throw new TypeError('baseUrl has to be like https://contacts.example.com or https://example.com/contacts');
    }
    this.#base = url.origin + url.pathname.replace(/\/+$/, '');
    this.#token = token.trim();
    if (!/^[!-~]+$/.test(this.#token)) throw new TypeError('the token is empty, or has characters that no token has');
    this.#options = {
      timeout: 30_000,
      tries: 5,
      maxWait: 60,
      batchSize: 100,
      fetch: (target, init) => fetch(target, init),
      ...options,
    };
    if (!(this.#options.tries >= 1 && this.#options.batchSize >= 1)) {
      throw new RangeError('tries and batchSize have to be at least 1');
    }
  }

  /** The personal phone number of a profile, or null. */
  async fetchPhoneNumber(profileUrl: string, options: LookupOptions = {}): Promise<PhoneFound | null> {
    return this.#lookUp('fetchPhoneNumber', profileUrl, options);
  }

  /** The personal e-mail address of a profile, or null. */
  async fetchPersonalEmail(profileUrl: string, options: LookupOptions = {}): Promise<EmailFound | null> {
    return this.#lookUp('fetchPersonalEmail', profileUrl, options);
  }

  /**
   * Makes any number of lookups, 100 in each request, and yields one result for each, in order.
   *
   * Lookups are taken from the iterable as they are needed. A lookup that is refused is a result with an error, and those beside it
   * are answered. What is refused only for now is sent again by itself. If a whole request fails (no connection, a token that is
   * refused), that is thrown: the results before it were yielded, so go on with the lookup after the last of them. After a result
   * with `QuotaExceeded` you may want to stop.
   */
  async *batch<L extends Lookup>(
    lookups: Iterable<L> | AsyncIterable<L>,
    options: CallOptions = {},
  ): AsyncGenerator<Result<L>, void, undefined> {
    let part: L[] = [];
    let size = 0;
    for await (const lookup of lookups) {
      const length = json(described(lookup)).length;
      if (part.length > 0 && (part.length >= this.#options.batchSize || size + length > MOST_CHARACTERS)) {
        yield* await this.#batch(part, options.signal);
        part = [];
        size = 0;
      }
      part.push(lookup);
      size += length;
    }
    if (part.length > 0) yield* await this.#batch(part, options.signal);
  }

  async #lookUp<O extends Operation>(
    operation: O,
    profileUrl: string,
    { requestId = newId(), signal }: LookupOptions,
  ): Promise<Found<O> | null> {
    const waits = new Waits(this.#options, signal);
    for (;;) {
      const answer = await this.#send(operation, { profileUrl }, requestId, signal);
      if (!waits.isWorth(answer) || !(await waits.wait([answer]))) return found(answer, operation);
    }
  }

  /** The results of lookups that fit one request. */
  async #batch<L extends Lookup>(lookups: L[], signal?: AbortSignal): Promise<Result<L>[]> {
    const waits = new Waits(this.#options, signal);
    const requestId = newId();
    const open = lookups.map((lookup) => ({ lookup, answer: undefined as Answer | undefined }));
    let left = open;
    for (;;) {
      const answers = await this.#sendBatch(left.map(({ lookup }) => lookup), requestId, signal);
      left.forEach((entry, at) => (entry.answer = answers[at]));
      const refused = left.filter(({ answer }) => answer !== undefined && waits.isWorth(answer));
      if (refused.length < left.length) waits.startAgain();
      left = refused;
      if (left.length === 0 || !(await waits.wait(left.flatMap(({ answer }) => answer ?? [])))) {
        return open.flatMap(({ lookup, answer }) => (answer === undefined ? [] : result(lookup, answer)));
      }
    }
  }

  /** An answer for each lookup. Throws an error if there is none for any. */
  async #sendBatch(lookups: Lookup[], requestId: string, signal?: AbortSignal): Promise<Answer[]> {
    const waits = new Waits(this.#options, signal);
    for (;;) {
      const answer = await this.#send('batch', { lookups: lookups.map(described) }, requestId, signal);
      const results = answer.httpStatus === 200 ? field(answer.body, 'results') : undefined;
      if (Array.isArray(results) && results.length === lookups.length) {
        return results.map((result: unknown) => ofResult(result, requestId));
      }
      if (answer.httpStatus === 413 && lookups.length === 1) return [answer];
      if (!waits.isWorth(answer) || !(await waits.wait([answer]))) throw toError(answer);
    }
  }

  /** Sends a request once. An answer with the status 0 stands for none. */
  async #send(name: string, body: unknown, requestId: string, signal?: AbortSignal): Promise<Answer> {
    const ending = new AbortController();
    const end = () => ending.abort(signal?.reason);
    const timer = setTimeout(() => ending.abort(new Error('no answer in time')), this.#options.timeout);
    signal?.addEventListener('abort', end);
    try {
      signal?.throwIfAborted();
      const response = await this.#options.fetch(`${this.#base}/api/${name}`, {
        method: 'POST',
        headers: {
          Authorization: `Bearer ${this.#token}`,
          'Content-Type': 'application/json',
          'X-Request-Id': requestId,
        },
        body: json(body),
        redirect: 'manual',
        signal: ending.signal,
      });
      const { headers } = response;
      return {
        // A page gets no status of a redirect.
        httpStatus: response.status === 0 ? 307 : response.status,
        body: parsed(await response.text()),
        requestId: headers.get('x-request-id') ?? requestId,
        reason: headers.get('x-invalid-reason') ?? description(headers.get('www-authenticate')),
        retryAfter: seconds(headers.get('retry-after')),
      };
    } catch (cause) {
      signal?.throwIfAborted();
      return { httpStatus: 0, body: undefined, requestId, reason: undefined, retryAfter: undefined, cause };
    } finally {
      clearTimeout(timer);
      signal?.removeEventListener('abort', end);
    }
  }
}

/** An answer of the service, or one result of a batch. */
interface Answer {
  httpStatus: number;
  body: unknown;
  requestId: string;
  reason: string | undefined;
  retryAfter: number | undefined;
  cause?: unknown;
}

/** The pauses between the tries of a request. */
class Waits {
  readonly #tries: number;
  readonly #maxWait: number;
  readonly #signal: AbortSignal | undefined;
  #tried = 0;

  constructor({ tries, maxWait }: Required<ClientOptions>, signal: AbortSignal | undefined) {
    this.#tries = tries;
    this.#maxWait = maxWait;
    this.#signal = signal;
  }

  startAgain(): void {
    this.#tried = 0;
  }

  /** Whether another try may have another answer, soon enough. */
  isWorth(answer: Answer): boolean {
    return mayPass(answer) && (answer.retryAfter ?? 0) <= this.#maxWait;
  }

  /** Waits before the next try. False if there is none. */
  async wait(answers: Answer[]): Promise<boolean> {
    this.#tried += 1;
    if (this.#tried >= this.#tries) return false;
    const pause = Math.min(FIRST_PAUSE * 2 ** (this.#tried - 1), LONGEST_PAUSE) * (0.5 + Math.random());
    const named = answers.flatMap(({ retryAfter }) => retryAfter ?? []);
    // Callers that were refused together do not come back together.
    await sleep(named.length > 0 ? Math.max(...named) + pause / 10 : pause, this.#signal);
    return true;
  }
}

function sleep(time: number, signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve, reject) => {
    const end = () => {
      clearTimeout(timer);
      reject(signal?.reason);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener('abort', end);
      resolve();
    }, time * 1000);
    signal?.addEventListener('abort', end, { once: true });
    if (signal?.aborted) end();
  });
}

function mayPass({ httpStatus, cause }: Answer): boolean {
  // A certificate that is not trusted, by the codes of Bun and Node.
  const code = field(cause, 'code') ?? field(field(cause, 'cause'), 'code');
  if (typeof code === 'string' && /CERT|SIGNATURE|ERR_TLS/.test(code)) return false;
  return [0, 408, 429, 500, 502, 503, 504].includes(httpStatus);
}

/** What is on file, or null. Throws an error for every other answer. */
function found<O extends Operation>(answer: Answer, operation: O): Found<O> | null {
  const { httpStatus, body } = answer;
  const name = operation === 'fetchPhoneNumber' ? 'phoneNumber' : 'email';
  const value = text(body, name);
  const profileUrl = text(body, 'profileUrl');
  if (httpStatus === 200 && value !== undefined && profileUrl !== undefined) {
    return { [name]: value, profileUrl } as unknown as Found<O>;
  }
  if (httpStatus === 404 && text(body, 'status') === 'contact_not_found') return null;
  throw toError(answer);
}

function toError(answer: Answer): ContactdError {
  const status = text(answer.body, 'status');
  if (answer.httpStatus === 0) return new ConnectionFailed(answer);
  if (answer.httpStatus === 401) return new Unauthorized(answer);
  if (answer.httpStatus === 429) return status === 'quota_exceeded' ? new QuotaExceeded(answer) : new RateLimited(answer);
  if (mayPass(answer)) return new ServiceError(answer);
  if (status === 'invalid_profile_url') return new InvalidProfileUrl(answer);
  return new UnexpectedAnswer(answer);
}

function result<L extends Lookup>(lookup: L, answer: Answer): Result<L> {
  try {
    const onFile = found<L['operation']>(answer, lookup.operation);
    return onFile === null ? { outcome: 'notFound', lookup } : { outcome: 'found', lookup, found: onFile };
  } catch (error) {
    if (error instanceof ContactdError) return { outcome: 'error', lookup, error };
    throw error;
  }
}

function ofResult(result: unknown, requestId: string): Answer {
  const [status, retryAfter] = [field(result, 'status'), field(result, 'retryAfter')];
  return {
    httpStatus: typeof status === 'number' ? status : 200,
    body: field(result, 'body'),
    requestId,
    reason: text(result, 'reason'),
    retryAfter: typeof retryAfter === 'number' ? retryAfter : undefined,
  };
}

function described({ operation, profileUrl }: Lookup): Lookup {
  return { operation, profileUrl };
}

function json(value: unknown): string {
  // Half a surrogate pair is no text, and would make the batch unreadable. With U+FFFD instead, only its own lookup is refused.
  return JSON.stringify(value, (_, part: unknown) =>
    typeof part === 'string' ? part.replace(/\p{Surrogate}/gu, '\uFFFD') : part,
  );
}

function parsed(content: string): unknown {
  try {
    return JSON.parse(content);
  } catch {
    return undefined;
  }
}

function field(value: unknown, name: string): unknown {
  return typeof value === 'object' && value !== null ? (value as Record<string, unknown>)[name] : undefined;
}

function text(value: unknown, name: string): string | undefined {
  const found = field(value, name);
  return typeof found === 'string' ? found : undefined;
}

/** What `WWW-Authenticate` says about the token. */
function description(challenge: string | null): string | undefined {
  return /error_description="([^"]*)"/.exec(challenge ?? '')?.[1];
}

/** `Retry-After`: seconds, or a date. */
function seconds(retryAfter: string | null): number | undefined {
  if (retryAfter === null) return undefined;
  if (/^\d+$/.test(retryAfter)) return Number(retryAfter);
  const time = Date.parse(retryAfter);
  return Number.isNaN(time) ? undefined : Math.max(0, (time - Date.now()) / 1000);
}

/** 32 hexadecimal digits. Node 18 and pages without https have no `crypto.randomUUID`. */
function newId(): string {
  return Array.from({ length: 4 }, () => Math.floor(Math.random() * 2 ** 32).toString(16).padStart(8, '0')).join('');
}
