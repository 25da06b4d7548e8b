// Looks at every page of the console once in each state. soak/pages.mjs does so with each role and size.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { PAGES, SIZES, Site } from './console.mjs';
import { faultsOf, layoutFaultsOf } from './faults.mjs';
import { DEEPER, emptySite, firstLogIn, fullSite, LONG_NAME, Scene } from './scenes.mjs';

let full;
let empty;

before(async () => { [full, empty] = await Promise.all([fullSite(), emptySite()]); });
after(() => Promise.all([full?.end(), empty?.end()]));

/** Every other page is looked at on a telephone, every third in the dark. */
const sizeOf = (at) => Object.keys(SIZES)[at % 3];

for (const [size, options] of Object.entries(SIZES)) {
  test(`every page can be read and used in each state: ${size}`, async () => {
    const found = [];
    const look = async (what, page, faults = faultsOf) => { for (const fault of await faults(page)) found.push(`${what}: ${fault}`); };
    const [scene, bare] = await Promise.all([Scene.open(full, LONG_NAME, options), Scene.open(empty, 'ada', options)]);
    let at = 0;
    const mine = () => { at += 1; return sizeOf(at) === size; };
    for (const route of PAGES) {
      if (mine()) { await scene.show(route); await look(route, scene.page); }
      if (mine()) { await bare.show(route); await look(`${route}, empty`, bare.page); }
      // These make no calls before they are shown.
      const isStill = ['people', 'imports/new', 'export'].includes(route);
      if (!isStill && mine()) { await scene.show(route, 'held'); await look(`${route}, loading`, scene.page, layoutFaultsOf); }
      if (!isStill && mine()) { await scene.show(route, 'failing'); await look(`${route}, failing`, scene.page); }
    }
    for (const [name, , go] of DEEPER) if (mine()) { await go(scene); await look(name, scene.page); }
    await firstLogIn(empty, `new-${size}`, options, look);
    assert.deepEqual(found, []);
    full.check();
    empty.check();
  });
}

test('what would be wrong with a page is found', async () => {
  const scene = await Scene.open(full, LONG_NAME, SIZES.wide);
  const faultsWith = async (route, style, faults = layoutFaultsOf) => {
    await scene.show(route);
    const added = await scene.page.addStyleTag({ content: style });
    const found = (await faults(scene.page)).join('\n');
    await added.evaluate((element) => element.remove());
    return found;
  };
  assert.match(await faultsWith('account', 'main { width: 145px !important; max-width: 145px !important }'), /narrow beside room/);
  assert.match(await faultsWith('overview', '.stats { width: 2000px }'), /scrolls sideways/);
  assert.match(await faultsWith('overview', '.stat { height: 2rem; overflow: hidden }'), /cut off/);
  assert.match(await faultsWith('overview', 'h1 { width: 2rem; overflow-wrap: normal; white-space: nowrap }'), /sticks out/);
  assert.match(await faultsWith('audit', 'select { width: 3rem !important }'), /narrower than “/);
  assert.match(await faultsWith('tokens', '.primary { width: 4rem; white-space: nowrap; overflow: hidden }'), /narrower than its label/);
  assert.match(await faultsWith('system', 'table { table-layout: fixed } td > div { min-width: 0 !important } th:last-child { width: 100px }'), /narrow column beside room/);
  assert.match(await faultsWith('overview', '.note { color: #aaa !important }', faultsOf), /color-contrast/);
});

test('what needs attention leads to the page where it can be done, not to a command', async () => {
  const page = await full.open('olga');
  await full.go(page, 'overview');
  const text = await page.locator('#page').innerText();
  assert.match(text, /What to do: see the page Tokens\./);
  assert.doesNotMatch(text, /contactd token/);
  await page.getByRole('link', { name: 'Tokens', exact: true }).last().click();
  await page.getByRole('heading', { name: 'Tokens', exact: true }).waitFor();
});

test('the first page is light', async () => {
  const site = new Site();
  try {
    await site.serve();
    site.run('user', 'create', 'ada', '--role', 'admin');
    const page = await site.open();
    const weigh = async () => page.evaluate(() => [...performance.getEntriesByType('navigation'), ...performance.getEntriesByType('resource')]
      .map(({ name, transferSize }) => ({ name, transferSize })));
    const loaded = await weigh();
    const weight = loaded.reduce((sum, { transferSize }) => sum + transferSize, 0);
    assert.ok(loaded.length <= 15 && weight <= 60_000, `${weight} bytes in ${loaded.length} requests: ${JSON.stringify(loaded)}`);
    console.log(`# the first page: ${loaded.length} requests, ${weight} bytes`);
    await page.reload();
    await page.locator('.login-page').waitFor();
    const again = (await weigh()).reduce((sum, { transferSize }) => sum + transferSize, 0);
    assert.ok(again < 4_000, `${again} bytes when it is opened again`);
  } finally {
    await site.end();
  }
});
