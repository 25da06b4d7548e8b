// Tests the access report in a real browser: it loads nothing else, fits a phone screen, and can be printed.
//
//   CONTACTD_BIN, CHROMIUM_BIN   as for docs.test.mjs

import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { once } from 'node:events';
import os from 'node:os';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { after, before, test } from 'node:test';
import { fileURLToPath, pathToFileURL } from 'node:url';

import { launch } from './browser.mjs';

const here = path.dirname(fileURLToPath(import.meta.url));
const binary = path.resolve(here, process.env.CONTACTD_BIN ?? '../target/release/contactd');
const ADA = 'https://www.linkedin.com/in/ada-quell-1a2b3c';

let dir;
let browser;
const run = (...args) => execFileSync(binary, [...args, '--data', path.join(dir, 'data')], { encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] });

before(async () => {
  dir = mkdtempSync(path.join(os.tmpdir(), 'contactd-subject-'));
  const people = path.join(dir, 'people.csv');
  writeFileSync(people, `profileUrl,phone,email,observedAt,basis\n${ADA},+14155550123,ada@example.com,2026-05-01,consent\n`);
  run('import', people, '--source', 'crm <b>& co</b>');
  const token = run('token', 'create', 'Recruiting').trim();
  const server = spawn(binary, ['serve', '--listen', '127.0.0.1:0', '--admin-listen', '127.0.0.1:0', '--data', path.join(dir, 'data')], { stdio: ['ignore', 'ignore', 'pipe'] });
  try {
    let origin;
    for await (const line of createInterface({ input: server.stderr })) {
      origin = line.match(/listening on (http:\/\/127\.0\.0\.1:\d+)/)?.[1];
      if (origin) break;
    }
    const answer = await fetch(`${origin}/api/fetchPhoneNumber`, {
      method: 'POST',
      headers: { Authorization: `Bearer ${token}`, 'Content-Type': 'application/json' },
      body: JSON.stringify({ profileUrl: ADA }),
    });
    assert.equal(answer.status, 200);
  } finally {
    server.kill('SIGTERM');
    await once(server, 'exit');
  }
  browser = await launch();
});

after(async () => {
  await browser?.close();
  rmSync(dir, { recursive: true, force: true });
});

test('the page says what is held and who received it, and asks nobody for anything', async () => {
  const file = path.join(dir, 'report.html');
  writeFileSync(file, run('subject', ADA, '--html'));
  const page = await browser.newPage({ viewport: { width: 390, height: 844 } });
  const asked = [];
  page.on('request', (request) => asked.push(request.url()));
  await page.goto(pathToFileURL(file).href);
  assert.deepEqual(asked, [pathToFileURL(file).href]);
  assert.equal(await page.locator('h1').innerText(), 'What we hold about you, and who received it');
  assert.match(await page.locator('.opt-out-state').innerText(), /You have not opted out/);
  const values = await page.locator('dd.value').allInnerTexts();
  assert.deepEqual(values, ['+14155550123', 'ada@example.com']);
  assert.match(await page.locator('dl').first().innerText(), /crm <b>& co<\/b>/);
  assert.deepEqual(await page.locator('h3').allInnerTexts(), ['Recruiting', 'Each time']);
  assert.match((await page.locator('li').allInnerTexts()).join('; '), /^Phone number \+14155550123: once, on [^;]* UTC$/);
  const rows = await page.locator('tbody tr').allInnerTexts();
  assert.equal(rows.length, 1);
  assert.match(rows[0], /Phone number \+14155550123\s+Recruiting/);
  const width = await page.evaluate(() => document.documentElement.scrollWidth);
  assert.ok(width <= 390, `it is ${width} wide on a telephone`);
  const pdf = await page.pdf({ format: 'A4' });
  assert.equal(pdf.subarray(0, 5).toString(), '%PDF-');
});

test('after an opt-out it says so', async () => {
  run('suppress', ADA);
  const file = path.join(dir, 'out.html');
  writeFileSync(file, run('subject', ADA, '--html'));
  const page = await browser.newPage();
  await page.goto(pathToFileURL(file).href);
  assert.match(await page.locator('.opt-out-state').innerText(), /You have opted out/);
});
