#!/usr/bin/env node
// Every page of the console as each role sees it, on a screen and on a telephone, in the light and in the dark, in each state. Says
// what is hard to see or to use, and puts all pictures on one sheet.
//
//   cd e2e && npm ci && CONTACTD_BIN=../target/debug/contactd node ../soak/pages.mjs SHEET.jpg

import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { pathToFileURL } from 'node:url';

import { SIZES } from '../e2e/console.mjs';
import { faultsOf, layoutFaultsOf } from '../e2e/faults.mjs';
import { DEEPER, emptySite, firstLogIn, fullSite, LONG_NAME, pagesOf, Scene } from '../e2e/scenes.mjs';

const sheet = process.argv[2] ?? 'sheet.jpg';
const pictures = mkdtempSync(path.join(os.tmpdir(), 'contactd-pages-'));
const sizes = { 'wide, light': SIZES.wide, 'wide, dark': SIZES.dark, 'narrow, light': SIZES.narrow, 'narrow, dark': { ...SIZES.narrow, colorScheme: 'dark' } };
const people = { admin: LONG_NAME, operator: 'olga', privacy: 'paula', auditor: 'anton' };
const found = [];
const rows = new Map();
let count = 0;

/** Looks at a page: what is wrong with it, and a small picture of it. */
async function look(role, what, size, page, faults = faultsOf) {
  for (const fault of await faults(page)) {
    found.push(`${role}, ${what}, ${size}: ${fault}`);
    console.log(found.at(-1));
  }
  count += 1;
  const file = `${count}.jpg`;
  await page.screenshot({ path: path.join(pictures, file), type: 'jpeg', quality: 80, scale: 'device' });
  const row = `${role}: ${what}`;
  rows.set(row, [...rows.get(row) ?? [], file]);
}

/** A sheet of pictures, one row for each page and state. */
async function draw(browser) {
  const cells = [...rows].map(([what, files]) => `<figure><figcaption>${what}</figcaption>${files.map((file) => `<img src="${file}">`).join('')}</figure>`);
  const index = path.join(pictures, 'index.html');
  writeFileSync(index, `<!doctype html><style>body { font: 11px sans-serif; margin: 8px; columns: 4; background: #888 }
    figure { margin: 0 0 6px; break-inside: avoid } img { height: 124px; margin-right: 3px; vertical-align: top }</style>${cells.join('')}`);
  const page = await browser.newPage({ viewport: { width: 2300, height: 1000 } });
  await page.goto(pathToFileURL(index).href);
  await page.screenshot({ path: sheet, type: 'jpeg', quality: 55, fullPage: true });
}

const [full, empty] = [await fullSite(), await emptySite()];
try {
  for (const [size, viewport] of Object.entries(sizes)) {
    const options = { ...viewport, deviceScaleFactor: 0.25 };
    for (const [role, name] of Object.entries(people)) {
      const scene = await Scene.open(full, name, options);
      const { permissions } = await scene.page.evaluate(async () => (await fetch('api/v1/session')).json());
      for (const route of pagesOf(permissions)) {
        await scene.show(route);
        await look(role, route, size, scene.page);
        if (['people', 'imports/new', 'export'].includes(route)) continue;
        await scene.show(route, 'held');
        await look(role, `${route}, loading`, size, scene.page, layoutFaultsOf);
        await scene.show(route, 'failing');
        await look(role, `${route}, failing`, size, scene.page);
      }
      for (const [what, permission, go] of DEEPER) {
        if (permission && !permissions.includes(permission)) continue;
        await go(scene);
        await look(role, what, size, scene.page);
      }
      await scene.close();
    }
    const bare = await Scene.open(empty, 'ada', options);
    const { permissions } = await bare.page.evaluate(async () => (await fetch('api/v1/session')).json());
    for (const route of pagesOf(permissions)) {
      await bare.show(route);
      await look('admin', `${route}, empty`, size, bare.page);
    }
    await bare.close();
    await firstLogIn(empty, `new-${size.replace(', ', '-')}`, options, (what, page) => look('operator', what, size, page));
    console.log(`${size}: ${count} pictures, ${found.length} findings`);
  }
  await draw(full.browser);
} finally {
  await Promise.all([full.end(), empty.end()]);
  rmSync(pictures, { recursive: true, force: true });
}
console.log(`${count} pictures on ${sheet}, ${found.length} findings`);
process.exitCode = found.length ? 1 : 0;
