// A contactd with users, and a browser in front of its console: what the tests of the console share.
//
//   CONTACTD_BIN, CHROMIUM_BIN   as for docs.test.mjs
//   CONTACTD_PICTURES            a directory for pictures of the pages; none are taken without it

import assert from 'node:assert/strict';
import { createHmac } from 'node:crypto';
import { execFileSync, spawn } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { once } from 'node:events';
import os from 'node:os';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';

import { launch } from './browser.mjs';

const here = path.dirname(fileURLToPath(import.meta.url));
const binary = path.resolve(here, process.env.CONTACTD_BIN ?? '../target/release/contactd');
const pictures = process.env.CONTACTD_PICTURES && path.resolve(process.env.CONTACTD_PICTURES);

export const PASSWORD = 'correct horse battery';

/** The pages of an admin. */
export const PAGES = ['overview', 'people', 'opt-outs', 'imports', 'imports/new', 'export', 'retention', 'tokens', 'usage', 'audit', 'audit/recipients', 'audit/proof', 'system', 'users', 'jobs', 'account'];

/** Pages that everybody sees at these sizes. */
export const SIZES = { wide: { viewport: { width: 1280, height: 900 } }, narrow: { viewport: { width: 390, height: 844 } }, dark: { viewport: { width: 1280, height: 900 }, colorScheme: 'dark' } };

/** A data directory, and a server on it. */
export class Site {
  constructor() {
    this.dir = mkdtempSync(path.join(os.tmpdir(), 'contactd-console-'));
    this.faults = [];
  }

  file(name, content) {
    const file = path.join(this.dir, name);
    writeFileSync(file, content);
    return file;
  }

  run(...args) {
    return execFileSync(binary, [...args, '--data', path.join(this.dir, 'data')], { encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] });
  }

  /** Starts the server. `flags`: more flags. */
  async serve(...flags) {
    const own = ['serve', '--listen', '127.0.0.1:0', '--admin-listen', '127.0.0.1:0', '--data', path.join(this.dir, 'data')];
    this.server = spawn(binary, [...own, ...flags], { stdio: ['ignore', 'pipe', 'pipe'] });
    this.said = '';
    this.server.stdout.on('data', (text) => { this.said += text; });
    for await (const line of createInterface({ input: this.server.stderr })) {
      this.origin ??= line.match(/listening on (http:\/\/127\.0\.0\.1:\d+)/)?.[1];
      this.base = line.match(/admin on (http:\/\/127\.0\.0\.1:\d+)/)?.[1];
      if (this.base) break;
    }
    this.server.stderr.resume();
    this.base = `${this.base}/admin/`;
    this.browser = await launch();
  }

  async end() {
    await this.browser?.close();
    this.server?.kill('SIGTERM');
    if (this.server) await once(this.server, 'exit');
    rmSync(this.dir, { recursive: true, force: true });
  }

  /** Creates a user, and chooses a password for them. */
  async user(name, role) {
    const first = this.run('user', 'create', name, '--role', role).trim();
    const begun = await this.post('session', { name, password: first });
    const { csrfToken } = await begun.json();
    const cookie = begun.headers.get('set-cookie').split(';')[0];
    const chosen = await this.post('me/password', { old: first, new: PASSWORD }, { Cookie: cookie, 'X-Contactd-Csrf': csrfToken });
    assert.equal(chosen.status, 204);
  }

  post(where, body, headers = {}) {
    return fetch(`${this.base}api/v1/${where}`, { method: 'POST', headers: { 'Content-Type': 'application/json', ...headers }, body: JSON.stringify(body) });
  }

  /** A lookup. Returns its status. */
  async look(operation, token, profileUrl) {
    const answer = await fetch(`${this.origin}/api/${operation}`, {
      method: 'POST', headers: { Authorization: `Bearer ${token}`, 'Content-Type': 'application/json' }, body: JSON.stringify({ profileUrl }),
    });
    await answer.text();
    return answer.status;
  }

  /** A page of the console, and whatever goes wrong in it. With a name, that user is logged in. Without motion: a dialog that fades in has
   * little contrast meanwhile. */
  async open(name, options = {}) {
    const context = await this.browser.newContext({ ...SIZES.wide, reducedMotion: 'reduce', permissions: ['clipboard-read', 'clipboard-write'], ...options });
    const page = await context.newPage();
    page.setDefaultTimeout(15_000);
    page.on('pageerror', (error) => this.faults.push(`uncaught: ${error}`));
    page.on('console', (message) => {
      if (message.type() === 'error' && !message.text().startsWith('Failed to load resource')) this.faults.push(`console: ${message.text()}`);
    });
    page.on('request', (request) => {
      const url = new URL(request.url());
      if (!['data:', 'blob:'].includes(url.protocol) && url.host !== new URL(this.base).host) this.faults.push(`elsewhere: ${url}`);
    });
    await page.goto(this.base);
    if (name) await logIn(page, name);
    return page;
  }

  /** Goes to a page of the console. */
  async go(page, route) {
    // Away first, so that what is found afterwards is of the new page.
    await page.goto('about:blank');
    await page.goto(`${this.base}#/${route}`);
    await page.locator('#page h1').waitFor();
    await page.waitForLoadState('networkidle');
  }

  /** Fails if anything went wrong in a page. */
  check() {
    assert.deepEqual(this.faults.splice(0), []);
  }
}

export async function logIn(page, name, password = PASSWORD) {
  await page.getByLabel('Name').fill(name);
  await page.getByLabel('Password').fill(password);
  await page.getByRole('button', { name: 'Log in' }).click();
  await page.locator('#user-menu').waitFor();
}

/** Takes a picture, if pictures are wanted. */
export async function picture(page, name) {
  if (!pictures) return;
  mkdirSync(pictures, { recursive: true });
  const isDialog = await page.locator('dialog[open]').count();
  if (!isDialog) await page.evaluate(() => scrollTo(0, 0));
  await page.waitForTimeout(200);
  await page.screenshot({ path: path.join(pictures, `${name}.png`), fullPage: !isDialog });
}

/** The code of an authenticator app, now or some steps of 30 seconds later. */
export function code(secret, later = 0) {
  const bits = [...secret.replace(/[\s=]/g, '')].map((letter) => 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567'.indexOf(letter).toString(2).padStart(5, '0')).join('');
  const key = Buffer.from(bits.match(/.{8}/g).map((byte) => parseInt(byte, 2)));
  const step = Buffer.alloc(8);
  step.writeBigUInt64BE(BigInt(Math.floor(Date.now() / 30_000) + later));
  const mac = createHmac('sha1', key).update(step).digest();
  const at = mac[19] & 15;
  return String((mac.readUInt32BE(at) & 0x7fffffff) % 1_000_000).padStart(6, '0');
}
