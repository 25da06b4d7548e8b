#!/usr/bin/env node
// Every page of the console as each role sees it, on a screen and on a telephone, in the light and in the dark, in each state. Says
// what is hard to see or to use, and puts all pictures on one sheet: what each page looks like in the light large enough to read, and
// the dark, the other roles, and what loads or fails small.
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
/** The pictures of each role and page. */
const rows = new Map();
/** The role that each page is shown large for: the first that has it. */
const shown = new Map();
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
  if (!shown.has(what)) shown.set(what, role);
  const isLarge = shown.get(what) === role && !/, (loading|failing)$/.test(what);
  const row = `${role}: ${what}`;
  const others = rows.get(row)?.pictures ?? [];
  rows.set(row, { isLarge, pictures: [...others, `<img src="${file}"${isLarge && size.endsWith('light') ? ' class="large"' : ''}>`] });
}

/** A sheet of pictures, one row for each page and state. */
async function draw(browser) {
  const part = (isLarge, columns) => {
    const figures = [...rows].filter(([, row]) => row.isLarge === isLarge);
    const cells = figures.map(([what, row]) => `<figure><figcaption>${what}</figcaption>${row.pictures.join('')}</figure>`);
    return `<section style="columns: ${columns}">${cells.join('')}</section>`;
  };
  const index = path.join(pictures, 'index.html');
  writeFileSync(index, `<!doctype html><style>body { font: 13px sans-serif; margin: 8px; background: #888 }
    figure { margin: 0 0 8px; break-inside: avoid } img { height: 110px; margin-right: 3px; vertical-align: top } .large { height: 420px }</style>
    ${part(true, 2)}${part(false, 5)}`);
  const page = await browser.newPage({ viewport: { width: 2150, height: 1000 } });
  await page.goto(pathToFileURL(index).href);
  await page.screenshot({ path: sheet, type: 'jpeg', quality: 40, fullPage: true });
}

const [full, empty] = [await fullSite(), await emptySite()];
try {
  for (const [size, viewport] of Object.entries(sizes)) {
    const options = { ...viewport, deviceScaleFactor: 0.5 };
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
