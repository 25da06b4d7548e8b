// Tests that names, sources and ids that are HTML, script or formulas do nothing in any page of the console, and the link of the demo.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { PAGES, Site } from './console.mjs';

const TAG = '<img src=x onerror=window.pwned=1><script>window.pwned=1</script>';
const EVIL = `${TAG}"'>`;
const PERSON = 'https://www.linkedin.com/in/ada-quell-1a2b3c';

const site = new Site();

before(async () => {
  const people = site.file('people.csv', `profileUrl,phone,email\n${PERSON},+14155550123,o'<b>@example.com\n`);
  site.run('import', people, '--source', EVIL, '--max-rejects', '100%');
  const token = site.run('token', 'create', EVIL).trim();
  await site.serve();
  await site.user('ada', 'admin');
  assert.equal(await site.look('fetchPhoneNumber', token, PERSON), 200);
  await site.look('fetchPhoneNumber', token, `${PERSON}${EVIL}`);
  site.run('suppress', 'https://www.linkedin.com/in/bo-quell-2b3c4d', '--ticket', EVIL);
});

after(() => site.end());

test('a hostile data set renders harmlessly in every page', async () => {
  const page = await site.open('ada', { bypassCSP: true });
  const look = async (what) => {
    await page.waitForTimeout(150);
    const seen = await page.evaluate(() => ({ pwned: window.pwned ?? 0, elements: document.querySelectorAll('body img, body script:not([type=module]), main b').length }));
    assert.deepEqual(seen, { pwned: 0, elements: 0 }, what);
  };
  for (const route of PAGES) {
    await site.go(page, route);
    await look(route);
  }
  await site.go(page, 'tokens');
  await page.getByRole('link', { name: EVIL }).click();
  await page.waitForLoadState('networkidle');
  await look('a token');
  await site.go(page, 'people');
  await page.getByLabel('Profile URL').fill(PERSON);
  await page.keyboard.press('Enter');
  await page.locator('.person').waitFor();
  await look('a person');
  for (const button of ['Opt out', 'Erase']) {
    await page.getByRole('button', { name: button, exact: true }).click();
    await page.locator('dialog').waitFor();
    await look(button);
    await page.keyboard.press('Escape');
  }
  await page.getByRole('button', { name: 'Report', exact: true }).click();
  await page.locator('.report').waitFor();
  await look('a report');
  await site.go(page, 'imports/new');
  await page.getByLabel('Choose a file').setInputFiles({ name: `${EVIL.replaceAll('/', '')}.csv`, mimeType: 'text/csv', buffer: Buffer.from(`profileUrl,phone,${TAG}\n${PERSON},+14155550123,${TAG}\n`) });
  await page.getByLabel('Source', { exact: true }).fill(EVIL);
  await page.locator('.row-preview').waitFor();
  await look('an upload');
  await page.goto(`${site.base}#/jobs/%3Cimg src=x onerror=window.pwned=1%3E`);
  await look('an odd address');
  await page.goto(`${site.base}#/audit?token=<img src=x onerror=window.pwned=1>&since=javascript:alert(1)&outcome="><script>`);
  await look('an odd query');
  site.check();
});

/** Starts the demo. Gives the link that it prints. */
async function demoLink(demo) {
  await demo.serve('--demo');
  while (!demo.said.includes('/admin/enter#')) await new Promise((resolve) => { setTimeout(resolve, 50); });
  return demo.said.match(/http:\S+\/admin\/enter#\S+/)[0];
}

test('the link of the demo opens the console once', async () => {
  const demo = new Site();
  try {
    const link = await demoLink(demo);
    const page = await demo.open();
    await page.goto(link);
    await page.locator('#user-menu').waitFor();
    await page.getByRole('heading', { name: 'Overview' }).waitFor();
    assert.ok(!page.url().includes(link.split('#')[1]), 'the secret is not left in the address');
    const other = await demo.open();
    await other.goto(link);
    await other.getByText('was used before').waitFor();
    assert.match(demo.run('audit', 'show', '--operation', 'log in'), /log in +done +by demo/);
    demo.check();
  } finally {
    await demo.end();
  }
});

test('the link of the demo opens nothing for a user who was disabled meanwhile', async () => {
  const demo = new Site();
  try {
    const link = await demoLink(demo);
    demo.run('user', 'create', 'other', '--role', 'admin');
    demo.run('user', 'disable', 'demo');
    const page = await demo.open();
    await page.goto(link);
    await page.getByText('was used before, or has ended').waitFor();
    demo.check();
  } finally {
    await demo.end();
  }
});
