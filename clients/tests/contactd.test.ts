// Tests of contactd.ts against a real service, run by clients/test.sh.

import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { readFile, writeFile } from 'node:fs/promises';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { inspect, promisify } from 'node:util';

import {
  Client,
  ConnectionFailed,
  ContactdError,
  InvalidProfileUrl,
  QuotaExceeded,
  RateLimited,
  ServiceError,
  Unauthorized,
  UnexpectedAnswer,
  type ClientOptions,
  type EmailFound,
  type Lookup,
  type Result,
} from 'contactd-client';

function env(name: string): string {
  const value = process.env[name];
  assert.ok(value, name);
  return value;
}

interface Seen {
  id: string;
  port: number;
  lookups: string[];
}

const [URL, PROXY, TOKEN] = [env('CONTACTD_URL'), env('PROXY_URL'), env('CONTACTD_TOKEN')];
const COMPANY = 'https://www.linkedin.com/company/quellcorp';
const NOBODY = 'https://www.linkedin.com/in/nobody-dornwett';
const LOOKUPS = 10_000;

const person = (number: number): string => `https://www.linkedin.com/in/told-quell-${number}`;
const email = (number: number): EmailFound => ({
  email: `told${number}@example.com`,
  profileUrl: `https://linkedin.com/in/told-quell-${number}`,
});
const lookup = (number: number): Lookup => ({ operation: 'fetchPersonalEmail', profileUrl: person(number) });
const numbers = (count: number): number[] => Array.from({ length: count }, (_, number) => number);
const found = (result: Result): unknown => (result.outcome === 'found' ? result.found : result.outcome);

async function askProxy<T>(path: string): Promise<T> {
  return (await (await fetch(`${PROXY}/${path}`)).json()) as T;
}

/** A client behind a proxy with a fault, and what the proxy saw. */
class Run {
  readonly client: Client;
  readonly #name: string;

  constructor(fault: string, options: ClientOptions = {}) {
    this.#name = `${fault}/ts-${Math.random()}`;
    this.client = new Client(`${PROXY}/${this.#name}/`, TOKEN, { timeout: 500, ...options });
  }

  requests(): Promise<Seen[]> {
    return askProxy(`log/${this.#name}`);
  }
}

async function all<T>(results: AsyncIterable<T>): Promise<T[]> {
  const list: T[] = [];
  for await (const result of results) list.push(result);
  return list;
}

async function failure(call: Promise<unknown>): Promise<ContactdError> {
  const error: unknown = await call.then(
    () => assert.fail('it was answered'),
    (error: unknown) => error,
  );
  assert.ok(error instanceof ContactdError, inspect(error));
  return error;
}

test('what is on file is found, and what is not is null', async () => {
  const client = new Client(URL, TOKEN);
  const phone = { phoneNumber: '+14155550107', profileUrl: 'https://linkedin.com/in/told-quell-7' };
  assert.deepEqual(await client.fetchPhoneNumber(person(7)), phone);
  assert.deepEqual(await client.fetchPersonalEmail(person(7)), email(7));
  assert.equal(await client.fetchPhoneNumber(NOBODY), null);
  assert.equal(await client.fetchPersonalEmail(NOBODY), null);
});

test('an error has a type, and prints nothing about a person', async () => {
  const requestId = '01a1dd23-63f3-7ac3-9432-756729e8be9a';
  const error = await failure(new Client(URL, TOKEN).fetchPhoneNumber(COMPANY, { requestId }));
  assert.ok(error instanceof InvalidProfileUrl);
  assert.deepEqual(
    [error.name, error.httpStatus, error.status, error.reason, error.requestId],
    ['InvalidProfileUrl', 400, 'invalid_profile_url', 'not_person', requestId],
  );
  assert.equal(error.serverMessage, `Invalid profileUrl: ${COMPANY} on /api/fetchPhoneNumber api call.`);
  assert.equal(error.message, `400 invalid_profile_url (not_person), request ${requestId}`);
  for (const text of [inspect(error, { depth: 9, showHidden: true }), JSON.stringify(error), String(error)]) {
    assert.ok(!text.includes('quellcorp'), text);
  }
  for (const [token, reason] of [['ctd_mistyped', 'unknown'], [env('CONTACTD_REVOKED'), 'revoked']] as const) {
    const unauthorized = await failure(new Client(URL, token).fetchPersonalEmail(person(1)));
    assert.ok(unauthorized instanceof Unauthorized);
    assert.equal(unauthorized.reason, reason);
    assert.ok(!inspect(unauthorized, { depth: 9, showHidden: true }).includes(token));
  }
});

test('what may pass is repeated with the same request id', async () => {
  const faults = { rate: 2, date: 2, busy: 2, error: 3, gateway: 2, silent: 2, cut: 2, half: 2 };
  for (const [fault, tries] of Object.entries(faults)) {
    const run = new Run(fault);
    const began = performance.now();
    assert.deepEqual(await run.client.fetchPersonalEmail(person(3)), email(3), fault);
    const requests = await run.requests();
    assert.deepEqual([requests.length, new Set(requests.map(({ id }) => id)).size], [tries, 1], fault);
    if (fault === 'rate' || fault === 'busy') assert.ok(performance.now() - began > 990, fault);
  }
});

test('there is a limit to tries and to waits', async () => {
  const cases = [
    ['always-busy', { tries: 3 }, ServiceError, 3],
    ['always-silent', { tries: 2 }, ConnectionFailed, 2],
    ['rate', { maxWait: 0.9 }, RateLimited, 1],
    ['quota', {}, QuotaExceeded, 1],
  ] as const;
  for (const [fault, options, kind, tries] of cases) {
    const run = new Run(fault, options);
    const error = await failure(run.client.fetchPhoneNumber(person(3)));
    assert.deepEqual([error.constructor, (await run.requests()).length], [kind, tries]);
    if (kind === QuotaExceeded) assert.deepEqual([error.status, error.retryAfter], ['quota_exceeded', 40_000]);
  }
  const nowhere = new Client('http://127.0.0.1:9', TOKEN, { tries: 2 });
  assert.ok((await failure(nowhere.fetchPhoneNumber(person(3)))) instanceof ConnectionFailed);
});

test('an answer that is not of the service is not repeated', async () => {
  for (const fault of ['html', 'redirect', 'elsewhere', 'short']) {
    const run = new Run(fault);
    const error = await failure(run.client.fetchPhoneNumber(person(3)));
    assert.deepEqual([error.constructor, (await run.requests()).length], [UnexpectedAnswer, 1], fault);
  }
  assert.deepEqual(await askProxy('log/pass/redirected'), [], 'redirects are not followed');
});

test('a wrong address or token is refused, without repeating it', () => {
  for (const url of ['contacts.example.com', 'ftp://example.com', 'https://a:b@example.com', 'https://example.com?a=b']) {
    assert.throws(() => new Client(url, TOKEN), TypeError);
  }
  for (const token of ['', 'ctd_quell\nX: y', 'ctd quell', 'ctd_é']) {
    assert.throws(() => new Client(URL, token), (error: Error) => !error.message.includes('quell'));
  }
  assert.ok(!inspect(new Client(URL, TOKEN), { depth: 9, showHidden: true }).includes(TOKEN));
});

test('a certificate has to be trusted', async () => {
  const began = performance.now();
  const client = new Client(`${env('PROXY_TLS_URL')}/pass/untrusted`, TOKEN);
  assert.ok((await failure(client.fetchPhoneNumber(person(3)))) instanceof ConnectionFailed);
  assert.ok(performance.now() - began < 2_000, 'it is not repeated');
});

test('connections are kept, and it does not matter if the service closes them', async () => {
  const [kept, closed] = [new Run('pass', { timeout: 5_000 }), new Run('closing', { timeout: 5_000 })];
  for (const run of [kept, closed]) {
    for (const number of numbers(10)) {
      assert.deepEqual(await run.client.fetchPersonalEmail(person(number)), email(number));
      await sleep(10);
    }
  }
  assert.equal(new Set((await kept.requests()).map(({ port }) => port)).size, 1);
  assert.equal(new Set((await closed.requests()).map(({ port }) => port)).size, 10);
});

test('many calls at the same time are each answered', async () => {
  const run = new Run('pass', { timeout: 20_000 });
  const answers = await Promise.all(numbers(160).map((number) => run.client.fetchPersonalEmail(person(number))));
  assert.deepEqual(answers, numbers(160).map(email));
  assert.equal((await run.requests()).length, 160);
});

test('a signal ends a call and its waits', async () => {
  const run = new Run('always-busy', { tries: 1_000 });
  const signal = AbortSignal.timeout(300);
  await assert.rejects(run.client.fetchPersonalEmail(person(1), { signal }), { name: 'TimeoutError' });
  await assert.rejects(all(run.client.batch([lookup(1)], { signal })), { name: 'TimeoutError' });
  const waiting = new Run('rate', { maxWait: 60 });
  const began = performance.now();
  const ended = waiting.client.fetchPersonalEmail(person(1), { signal: AbortSignal.timeout(200) });
  await assert.rejects(ended, { name: 'TimeoutError' });
  assert.ok(performance.now() - began < 900);
});

test('the code that uses the client prints what the document says', async () => {
  const root = env('CONTACTD_ROOT');
  for (const [document, blocks] of [['docs/clients.md', 1], ['clients/typescript/README.md', 1]] as const) {
    const text = await readFile(`${root}/${document}`, 'utf8');
    const found = [...text.matchAll(/```javascript\n(.*?)```\n\n```text\n(.*?)```/gs)];
    assert.equal(found.length, blocks, document);
    for (const [, code = '', prints] of found) {
      await writeFile('block.mjs', code.replace('http://127.0.0.1:8080', URL));
      assert.equal((await promisify(execFile)('node', ['block.mjs'])).stdout, prints);
    }
  }
});

test('any number of lookups is cut into batches, and one bad URL loses no other', async () => {
  const odd = new Map([
    [5, COMPANY],
    [105, 'half a pair \ud800'],
    [205, `https://linkedin.com/in/${'x'.repeat(300_000)}`],
    [206, NOBODY],
    [207, ''],
  ]);
  const run = new Run('pass', { timeout: 20_000 });
  const lookups = numbers(250).map((n): Lookup => ({ operation: 'fetchPersonalEmail', profileUrl: odd.get(n) ?? person(n) }));
  const results = await all(run.client.batch(lookups));
  assert.deepEqual(results.map((result) => result.lookup), lookups);
  for (const [number, result] of results.entries()) {
    if (!odd.has(number)) assert.deepEqual(found(result), email(number));
  }
  const reason = (number: number) => {
    const result = results[number];
    return result?.outcome === 'error' ? (result.error.reason ?? result.error.name) : result?.outcome;
  };
  const reasons = ['not_person', 'not_a_url', 'UnexpectedAnswer', 'notFound', 'empty'];
  assert.deepEqual([...odd.keys()].map(reason), reasons);
  assert.deepEqual((await run.requests()).map((request) => request.lookups.length), [100, 100, 5, 1, 44]);
});

test('only what is refused for now is sent again, with the same request id', async () => {
  const run = new Run('parts', { timeout: 20_000 });
  const results = await all(run.client.batch(numbers(99).map(lookup)));
  assert.deepEqual(results.map(found), numbers(99).map(email));
  const [first, second, ...more] = await run.requests();
  assert.deepEqual(second?.lookups, numbers(99).filter((n) => n % 3 !== 0).map(person));
  assert.equal(first?.id, second?.id);
  assert.deepEqual(more, []);
});

test('what is refused for good is a result', async () => {
  const lookups = numbers(4).map(lookup);
  const errors = (results: Result[]) => results.map((result) => (result.outcome === 'error' ? result.error.constructor : result.outcome));
  let run = new Run('parts-quota');
  assert.deepEqual(errors(await all(run.client.batch(lookups))), [QuotaExceeded, 'found', QuotaExceeded, 'found']);
  assert.equal((await run.requests()).length, 1);
  run = new Run('parts-always', { tries: 3 });
  assert.deepEqual(errors(await all(run.client.batch(lookups))), [ServiceError, 'found', 'found', 'found']);
  assert.deepEqual((await run.requests()).map((request) => request.lookups.length), [4, 1, 1]);
});

test('a request that fails as a whole is thrown, after the results before it', async () => {
  const results: unknown[] = [];
  const run = new Run('dies', { tries: 2, timeout: 20_000 });
  const failing = (async () => {
    for await (const result of run.client.batch(numbers(150).map(lookup))) results.push(found(result));
  })();
  assert.ok((await failure(failing)) instanceof ConnectionFailed);
  assert.deepEqual(results, numbers(100).map(email));
  for (const [fault, kind] of [['short', UnexpectedAnswer], ['quota', QuotaExceeded]] as const) {
    assert.ok((await failure(all(new Run(fault).client.batch([lookup(1)])))) instanceof kind);
  }
  for (const fault of ['busy', 'cut', 'silent', 'half']) {
    assert.deepEqual((await all(new Run(fault).client.batch([lookup(1)]))).map(found), [email(1)], fault);
  }
});

test('lookups are taken as they are needed', async () => {
  let taken = 0;
  async function* endless(): AsyncGenerator<Lookup> {
    for (;;) yield lookup(taken++);
  }
  const results: unknown[] = [];
  for await (const result of new Client(URL, TOKEN).batch(endless())) {
    results.push(found(result));
    if (results.length === 150) break;
  }
  assert.deepEqual(results, numbers(150).map(email));
  assert.ok(taken <= 202, String(taken));
  assert.deepEqual(await all(new Client(URL, TOKEN).batch([])), []);
});

test('limits of the service are kept', async () => {
  const lookups = numbers(150).map(lookup);
  const results = await all(new Client(URL, env('CONTACTD_RATED')).batch(lookups));
  assert.deepEqual(results.map(found), numbers(150).map(email));
  const metered = await all(new Client(URL, env('CONTACTD_METERED')).batch(lookups.slice(0, 10)));
  const isOver = (result: Result) => result.outcome === 'error' && result.error instanceof QuotaExceeded;
  assert.deepEqual(metered.map(isOver), numbers(10).map((number) => number >= 3));
});

test('the type of a result follows from what was asked', async () => {
  const asked = [{ operation: 'fetchPhoneNumber', profileUrl: person(1), row: 7 }] as const;
  for await (const result of new Client(URL, TOKEN).batch(asked)) {
    const row: 7 = result.lookup.row;
    const phone: string | null = result.outcome === 'found' ? result.found.phoneNumber : null;
    assert.deepEqual([row, phone], [7, '+14155550101']);
  }
});

test('ten thousand lookups are each answered once while the service is restarted', async () => {
  const before = await askProxy<number>('hits');
  const restarts = new Map([[2_000, 'TERM'], [5_000, 'KILL'], [8_000, 'TERM']]);
  async function* lookups(): AsyncGenerator<Lookup> {
    for (const number of numbers(LOOKUPS)) {
      const how = restarts.get(number);
      if (how !== undefined) await askProxy(`restart/${how}`);
      yield lookup(number);
    }
  }
  const results = await all(new Client(URL, TOKEN, { tries: 8 }).batch(lookups()));
  assert.deepEqual(results.map(found), numbers(LOOKUPS).map(email));
  const hits = (await askProxy<number>('hits')) - before;
  assert.ok(hits <= LOOKUPS + 100 * restarts.size, `${hits}: only batches under way are repeated`);
});
