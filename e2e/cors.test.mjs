// Tests CORS in a real browser: a page of a listed origin can call the service and read its answers, another page cannot.
//
//   CONTACTD_BIN, CHROMIUM_BIN   as for docs.test.mjs

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import http from 'node:http';
import os from 'node:os';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { after, before, test } from 'node:test';
import { fileURLToPath } from 'node:url';

import { launch } from './browser.mjs';

const here = path.dirname(fileURLToPath(import.meta.url));
const binary = path.resolve(here, process.env.CONTACTD_BIN ?? '../target/release/contactd');
const ADA = 'https://www.linkedin.com/in/ada-quell-1a2b3c';

let dir;
let browser;
let service;
let api;
let token;
// The same page at two addresses, and so with two origins: the first is listed, the second is not.
const pages = http.createServer((_, response) => response.setHeader('Content-Type', 'text/html').end('<title>page</title>'));

before(async () => {
  pages.listen(0, '127.0.0.1');
  await once(pages, 'listening');
  dir = mkdtempSync(path.join(os.tmpdir(), 'contactd-cors-'));
  const config = path.join(dir, 'contactd.toml');
  writeFileSync(config, `[cors]\nallow_origins = ["http://127.0.0.1:${pages.address().port}"]\n`);
  const args = ['serve', '--demo', '--listen', '127.0.0.1:0', '--admin-listen', '127.0.0.1:0', '--config', config];
  service = spawn(binary, args, { stdio: ['ignore', 'pipe', 'inherit'] });
  for await (const line of createInterface({ input: service.stdout })) {
    [, api] = line.match(/(http:\/\/[\d.:]+)\/api/) ?? [];
    [, token] = line.match(/Bearer (ctd_\w+)/) ?? [];
    if (token) break;
  }
  browser = await launch();
});

after(async () => {
  await browser?.close();
  pages.close();
  service?.kill('SIGTERM');
  if (service) await once(service, 'exit');
  rmSync(dir, { recursive: true, force: true });
});

/** Looks somebody up from a page at `host`: status, body and headers, or `blocked`. */
async function lookUp(host, profileUrl, bearer) {
  const page = await browser.newPage();
  await page.goto(`http://${host}:${pages.address().port}/`);
  const answer = await page.evaluate(async ({ url, profileUrl, bearer }) => {
    try {
      const response = await fetch(url, {
        method: 'POST',
        headers: { Authorization: `Bearer ${bearer}`, 'Content-Type': 'application/json', 'X-Request-Id': 'page-7' },
        body: JSON.stringify({ profileUrl }),
      });
      return { status: response.status, body: await response.json(), headers: Object.fromEntries(response.headers) };
    } catch {
      return 'blocked';
    }
  }, { url: `${api}/api/fetchPhoneNumber`, profileUrl, bearer });
  await page.close();
  return answer;
}

test('a page of a listed origin reads answers, errors and their headers', async () => {
  const found = await lookUp('127.0.0.1', ADA, token);
  assert.equal(found.status, 200);
  assert.deepEqual(found.body, { phoneNumber: '+14155550123', profileUrl: 'https://linkedin.com/in/ada-quell-1a2b3c' });
  assert.equal(found.headers['x-request-id'], 'page-7');
  const refused = await lookUp('127.0.0.1', 'https://www.linkedin.com/company/quellcorp', token);
  assert.deepEqual([refused.status, refused.headers['x-invalid-reason']], [400, 'not_person']);
  const unknown = await lookUp('127.0.0.1', ADA, 'wrong');
  assert.equal(unknown.status, 401);
  assert.equal(unknown.headers['www-authenticate'], 'Bearer error="invalid_token", error_description="unknown"');
});

test('a page of another origin is blocked by the browser', async () => {
  assert.equal(await lookUp('localhost', ADA, token), 'blocked');
});
