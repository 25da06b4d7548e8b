// Tests the documentation page in a real browser, with the real server and its demo data.
// Needs Node 18 and Chromium:
//
//   npm ci && npm test
//
//   CONTACTD_BIN   the server to test (default ../target/release/contactd)
//   CHROMIUM_BIN   see browser.mjs

import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { after, before, describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';

import { launch } from './browser.mjs';

const here = path.dirname(fileURLToPath(import.meta.url));
const binary = path.resolve(here, process.env.CONTACTD_BIN ?? '../target/release/contactd');
const START_MS = 30_000;
const STOP_MS = 40_000;
const COMPANY_URL = 'https://www.linkedin.com/company/example';
const OPERATIONS = ['fetchPhoneNumber', 'fetchPersonalEmail'];

// ---------------------------------------------------------------- the server

/** Starts a demo server. Resolves when it has printed its address and its curl lines. */
async function startServer(...extra) {
  const args = ['serve', '--demo', '--listen', '127.0.0.1:0', '--admin-listen', '127.0.0.1:0', ...extra];
  const child = spawn(binary, args, { stdio: ['ignore', 'pipe', 'pipe'] });
  const kill = () => child.kill('SIGKILL');
  process.once('exit', kill);
  const exited = once(child, 'exit').then(([code, signal]) => {
    process.off('exit', kill);
    return { code, signal };
  });
  const log = [];
  const found = { curls: [] };
  const ready = new Promise((resolve, reject) => {
    const fail = (why) => reject(new Error(`${binary} ${args.join(' ')}: ${why}\n${log.join('\n')}`));
    const timer = setTimeout(() => { kill(); fail(`not ready after ${START_MS} ms`); }, START_MS);
    timer.unref();
    child.once('error', (error) => fail(error.message));
    exited.then(({ code, signal }) => fail(`exited (${signal ?? code})`), () => {});
    const check = () => {
      if (found.origin && found.curls.length >= 4) { clearTimeout(timer); resolve(); }
    };
    createInterface({ input: child.stderr }).on('line', (line) => {
      log.push(line);
      found.origin ??= line.match(/listening on (http:\/\/127\.0\.0\.1:\d+)/)?.[1];
      check();
    });
    createInterface({ input: child.stdout }).on('line', (line) => {
      log.push(line);
      const curl = parseCurl(line);
      if (curl) found.curls.push(curl);
      check();
    });
  });
  await ready;
  const sandbox = found.curls.find((curl) => curl.token.startsWith('ctd_test_'));
  const phone = found.curls.find((curl) => curl.operation === 'fetchPhoneNumber');
  const email = found.curls.find((curl) => curl.operation === 'fetchPersonalEmail');
  assert.ok(phone && email && sandbox, `a curl line for each operation and for the sandbox:\n${log.join('\n')}`);
  return {
    base: phone.base, origin: found.origin, token: phone.token, phoneUrl: phone.profileUrl, emailUrl: email.profileUrl, sandbox: sandbox.token,
    async stop() {
      child.kill('SIGTERM');
      const late = setTimeout(kill, STOP_MS);
      const { code, signal } = await exited;
      clearTimeout(late);
      assert.deepEqual({ code, signal }, { code: 0, signal: null }, `a clean exit after SIGTERM:\n${log.join('\n')}`);
    },
  };
}

function parseCurl(line) {
  const url = line.match(/^\s*curl .*?'?(https?:\/\/[^\s']+)\/api\/(\w+)'?/);
  const token = line.match(/Authorization: Bearer ([^\s'"]+)/);
  const body = line.match(/-d '(\{.*\})'/);
  return url && token && body && { base: url[1], operation: url[2], token: token[1], ...JSON.parse(body[1]) };
}

// ---------------------------------------------------------------- the page

/** Opens the page in a new context and records everything that must not happen there. */
async function openDocs(browser, server, { width = 1440, height = 900, ...options } = {}) {
  const context = await browser.newContext({ viewport: { width, height }, ...options });
  const page = await context.newPage();
  const origin = new URL(server.base).origin;
  const faults = [];
  page.on('pageerror', (error) => faults.push(`uncaught: ${error}`));
  page.on('console', (message) => {
    if (message.type() !== 'error') return;
    const { url } = message.location();
    // The browser reports every fetch that fails or is answered with 4xx. For lookups, these tests expect that.
    if (message.text().startsWith('Failed to load resource') && url.startsWith(`${server.base}/api/`)) return;
    faults.push(`console: ${message.text()} (${url})`);
  });
  context.on('request', (request) => {
    const url = new URL(request.url());
    if (url.protocol !== 'data:' && url.origin !== origin) faults.push(`request to ${url.origin}`);
    if (url.protocol !== 'data:' && !url.href.startsWith(`${server.base}/`)) faults.push(`request outside the base path: ${url}`);
  });
  const response = await page.goto(`${server.base}/docs`);
  await page.getByRole('heading', { level: 1 }).waitFor();
  return {
    page, context, response,
    async close() {
      await context.close();
      assert.deepEqual(faults, [], 'no console errors, no requests elsewhere');
    },
  };
}

const panel = (page, operation) => page.locator(`#${operation} .try-panel`);

/** Fills in the form of an operation, sends it with the button or the Enter key, and waits for the answer. */
async function tryIt(page, operation, profileUrl, { enter = false } = {}) {
  const box = panel(page, operation);
  await box.getByLabel('profileUrl').fill(profileUrl);
  if (enter) await box.getByLabel('profileUrl').press('Enter');
  else await box.getByRole('button', { name: 'Send' }).click();
  const line = box.locator('.result-line');
  await line.locator('.status, .error-text').waitFor();
  return { line: await line.innerText(), text: await box.locator('.result').innerText(), box };
}

const scrollsSideways = (page) =>
  page.evaluate(() => document.documentElement.scrollWidth > document.documentElement.clientWidth);

// ---------------------------------------------------------------- the tests

describe('documentation page', { timeout: 180_000 }, () => {
  let browser;
  let server;

  before(async () => {
    server = await startServer();
    browser = await launch();
  });

  after(async () => {
    await browser?.close();
    await server?.stop();
  });

  test('shows everything the description holds', async () => {
    assert.equal(new URL(server.base).origin, server.origin, 'the curl lines name the address that is listened on');
    const { page, response, close } = await openDocs(browser, server);
    const csp = response.headers()['content-security-policy'] ?? '';
    for (const rule of ["default-src 'none'", "script-src 'self'", "style-src 'self'", "connect-src 'self'"]) {
      assert.ok(csp.includes(rule), `the policy has ${rule}: ${csp}`);
    }

    const api = await (await fetch(`${server.base}/openapi-1.1.json`)).json();
    assert.equal(api.info.version, '1.1.0');
    assert.equal(await page.title(), `${api.info.title} 1.1.0`);
    assert.equal(await page.getByRole('heading', { level: 1 }).innerText(), api.info.title);
    assert.equal(await page.locator('#version').innerText(), '1.1.0');
    assert.equal(await page.locator('#base').innerText(), server.base);

    for (const operation of OPERATIONS) {
      const section = page.locator(`#${operation}`);
      assert.match(await section.locator('.route').innerText(), new RegExp(`POST\\s+/api/${operation}`));
      assert.equal(await section.getByRole('table', { name: 'request body' }).getByText('profileUrl', { exact: true }).count(), 1);
      for (const [status, node] of Object.entries(api.paths[`/api/${operation}`].post.responses)) {
        const summary = section.locator(`#${operation}-${status} > summary`);
        assert.match(await summary.innerText(), new RegExp(`${status}\\s+\\S`), `${operation} ${status}`);
        for (const example of Object.values(node.content?.['application/json']?.examples ?? {})) {
          if (example.value?.status) assert.ok((await summary.innerText()).includes(example.value.status), example.value.status);
        }
      }
      for (const code of ['invalid_profile_url', 'no_authorization_found', 'contact_not_found']) {
        assert.ok((await section.locator('.responses').innerText()).includes(code), `${operation}: ${code}`);
      }
      await page.locator('#toc').getByRole('link', { name: operation }).waitFor();
    }

    const reasons = api['x-invalid-reasons'].map(({ code }) => code);
    assert.ok(reasons.includes('not_person') && reasons.includes('bad_host') && reasons.includes('missing'));
    assert.deepEqual(await page.locator('#invalid-reasons tbody tr td:first-child code').allInnerTexts(), reasons);
    await close();
  });

  test('looks up a phone number and an e-mail address', async () => {
    const { page, context, close } = await openDocs(browser, server);
    await page.getByLabel('Token', { exact: true }).fill(server.token);

    const phone = await tryIt(page, 'fetchPhoneNumber', server.phoneUrl);
    assert.match(phone.line, /200/);
    assert.match(phone.line, /\d ms/);
    assert.match(phone.text, /"phoneNumber": "\+\d{7,15}"/);
    assert.match(phone.text, /x-request-id/i);

    const email = await tryIt(page, 'fetchPersonalEmail', server.emailUrl, { enter: true });
    assert.match(email.line, /200/);
    assert.match(email.text, /"email": "[^"@]+@[^"@]+"/);

    assert.ok(!(await page.locator('body').innerText()).includes(server.token), 'the token is not shown');
    const kept = await page.evaluate(() => localStorage.length + sessionStorage.length + document.cookie.length);
    assert.equal(kept, 0, 'nothing is stored');
    assert.deepEqual(await context.cookies(), []);
    await page.reload();
    await page.getByRole('heading', { level: 1 }).waitFor();
    assert.equal(await page.getByLabel('Token', { exact: true }).inputValue(), '', 'the token is gone on reload');
    await close();
  });

  test('sends a batch', async () => {
    const { page, close } = await openDocs(browser, server);
    await page.getByLabel('Token', { exact: true }).fill(server.token);
    const box = panel(page, 'batch');
    const body = box.getByLabel('Request body');
    assert.deepEqual(JSON.parse(await body.inputValue()).lookups.map(({ operation }) => operation), OPERATIONS);
    await box.getByRole('button', { name: 'Send' }).click();
    await box.locator('.result-line .status').waitFor();
    assert.match(await box.locator('.result-line').innerText(), /200/);
    assert.match(await box.locator('.result').innerText(), /"phoneNumber": "\+\d/);
    await body.fill('{"lookups":[7]}');
    assert.ok((await box.locator('.curl').innerText()).includes('{"lookups":[7]}'));
    await box.getByRole('button', { name: 'Send' }).click();
    await box.getByText('invalid_batch').first().waitFor();
    assert.match(await box.locator('.result').innerText(), /lookups\[0\] is not an object/);
    await close();
  });

  test('offers what the sandbox answers while it has a token of it', async () => {
    const { page, close } = await openDocs(browser, server);
    const box = panel(page, 'fetchPhoneNumber');
    const token = page.getByLabel('Token', { exact: true });
    await token.fill(server.token);
    assert.equal(await box.getByRole('button', { name: 'sandbox-hit' }).count(), 0);
    await token.fill(server.sandbox);
    await page.getByText('For tests: the sandbox makes its answers up.').waitFor();
    for (const [slug, status] of [['sandbox-hit', 200], ['sandbox-error', 500]]) {
      await box.getByRole('button', { name: slug }).click();
      assert.equal(await box.getByLabel('profileUrl').inputValue(), `https://www.linkedin.com/in/${slug}`);
      assert.ok((await box.locator('.curl').innerText()).includes(slug));
      await box.getByRole('button', { name: 'Send' }).click();
      await box.locator('.result-line').getByText(String(status), { exact: true }).waitFor();
      assert.match(await box.locator('.result').innerText(), /x-contactd-sandbox:\s+true/i);
    }
    await token.fill(server.token);
    assert.equal(await box.getByRole('button', { name: 'sandbox-hit' }).count(), 0);
    await close();
  });

  test('shows why a request was not authorised', async () => {
    const { page, close } = await openDocs(browser, server);
    for (const token of ['', `${server.token.slice(0, -1)}${server.token.endsWith('a') ? 'b' : 'a'}`]) {
      await page.getByLabel('Token', { exact: true }).fill(token);
      const { line, text } = await tryIt(page, 'fetchPhoneNumber', server.phoneUrl);
      assert.match(line, /401/);
      assert.match(text, /"status": "no_authorization_found"/);
      assert.match(text, /www-authenticate: Bearer/i);
    }
    await close();
  });

  test('shows why a profile URL was refused', async () => {
    const { page, close } = await openDocs(browser, server);
    await page.getByLabel('Token', { exact: true }).fill(server.token);
    const { line, text, box } = await tryIt(page, 'fetchPhoneNumber', COMPANY_URL);
    assert.match(line, /400/);
    assert.match(text, /"status": "invalid_profile_url"/);
    assert.ok(text.includes(`Invalid profileUrl: ${COMPANY_URL} on /api/fetchPhoneNumber api call.`));
    assert.match(text, /x-invalid-reason:\s*not_person/i);
    await box.getByRole('link', { name: 'not_person' }).click();
    assert.equal(new URL(page.url()).hash, '#reason-not_person');
    await close();
  });

  test('gives a curl command that a shell reads as the same request', async () => {
    const { page, close } = await openDocs(browser, server, { permissions: ['clipboard-read', 'clipboard-write'] });
    await page.getByLabel('Token', { exact: true }).fill(server.token);
    const box = panel(page, 'fetchPhoneNumber');
    const awkward = 'https://x.example/in/o\'neil "$HOME" `id` \\ !! ü';
    await box.getByLabel('profileUrl').fill(awkward);
    await box.getByRole('button', { name: 'Copy the curl command' }).click();
    await box.getByText('Copied').waitFor();
    const command = await page.evaluate(() => navigator.clipboard.readText());
    assert.ok(!command.includes(server.token), 'the token is not in the command');

    const script = `curl() { printf '%s\\n' "$@"; }\n${command}`;
    const words = execFileSync('sh', ['-c', script], { encoding: 'utf8', env: { CONTACTD_TOKEN: 'ctd_test' } }).trimEnd().split('\n');
    assert.deepEqual(words, [
      '-sS', `${server.base}/api/fetchPhoneNumber`,
      '-H', 'Authorization: Bearer ctd_test',
      '-H', 'Content-Type: application/json',
      '-d', JSON.stringify({ profileUrl: awkward }),
    ]);
    await close();
  });

  test('says so when there is no answer', async () => {
    const { page, context, close } = await openDocs(browser, server);
    await context.setOffline(true);
    const { line } = await tryIt(page, 'fetchPhoneNumber', server.phoneUrl);
    assert.match(line, /could not be reached/);
    await context.setOffline(false);
    await page.getByLabel('Token', { exact: true }).fill(server.token);
    assert.match((await tryIt(page, 'fetchPhoneNumber', server.phoneUrl)).line, /200/);
    await close();
  });

  test('can be used with the keyboard alone', async () => {
    const { page, close } = await openDocs(browser, server);
    const focused = () => page.evaluate(() => document.activeElement.id || document.activeElement.textContent);
    const next = async (wanted) => {
      for (let i = 0; i < 60; i += 1) {
        await page.keyboard.press('Tab');
        if (await focused() === wanted) return;
      }
      assert.fail(`Tab never reached ${wanted}`);
    };
    await page.keyboard.press('Tab');
    assert.equal(await focused(), 'Skip to the content');
    await next('token');
    await page.keyboard.type(server.token);
    const token = page.locator('#token');
    assert.equal(await token.getAttribute('type'), 'password');
    await page.keyboard.press('Tab');
    await page.keyboard.press('Space');
    assert.equal(await token.getAttribute('type'), 'text');
    await page.keyboard.press('Space');
    assert.equal(await token.getAttribute('type'), 'password');
    await next('fetchPhoneNumber-url');
    await page.keyboard.press('Control+A');
    await page.keyboard.type(server.phoneUrl);
    await page.keyboard.press('Enter');
    const line = panel(page, 'fetchPhoneNumber').locator('.result-line');
    await line.locator('.status').waitFor();
    assert.match(await line.innerText(), /200/);
    assert.equal(await line.getAttribute('role'), 'status', 'the outcome is announced');
    await close();
  });

  test('fits a telephone, and every width up from there', async () => {
    const { page, close } = await openDocs(browser, server, { width: 375, height: 800 });
    await page.getByLabel('Token', { exact: true }).fill(server.token);
    assert.match((await tryIt(page, 'fetchPhoneNumber', server.phoneUrl)).line, /200/);
    await tryIt(page, 'fetchPersonalEmail', `${COMPANY_URL}/${'long'.repeat(60)}`);
    for (const button of await page.getByRole('button', { name: 'Open or close all' }).all()) await button.click();
    for (const width of [320, 375, 600, 768, 1024, 1280, 1920]) {
      await page.setViewportSize({ width, height: 800 });
      assert.equal(await scrollsSideways(page), false, `no sideways scrolling at ${width}px`);
    }
    await close();
  });

  test('works under a base path', async () => {
    const moved = await startServer('--base-path', '/contacts');
    try {
      assert.ok(moved.base.endsWith('/contacts'), moved.base);
      const { page, close } = await openDocs(browser, moved);
      await page.getByLabel('Token', { exact: true }).fill(moved.token);
      assert.equal(await page.locator('#base').innerText(), moved.base);
      assert.ok((await panel(page, 'fetchPhoneNumber').locator('.curl').innerText()).includes(`${moved.base}/api/fetchPhoneNumber`));
      const { line, text } = await tryIt(page, 'fetchPhoneNumber', moved.phoneUrl);
      assert.match(line, /200/);
      assert.match(text, /"phoneNumber": "\+\d/);
      const refused = await tryIt(page, 'fetchPersonalEmail', COMPANY_URL);
      assert.match(refused.line, /400/);
      assert.ok(refused.text.includes('on /api/fetchPersonalEmail api call.'), 'messages keep the contract’s own path');
      await close();
    } finally {
      await moved.stop();
    }
  });
});
