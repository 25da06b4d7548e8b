// Tests the console in a real browser, from the start to the end of what each role does.

import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { after, before, test } from 'node:test';
import { typesOf } from './api-types.mjs';
import { code, picture, PASSWORD, Site } from './console.mjs';

const ADA = 'https://www.linkedin.com/in/ada-quell-1a2b3c';
const BO = 'https://www.linkedin.com/in/bo-quell-2b3c4d';
const MESSY = [
  'LinkedIn;Mobile;Private mail;Company',
  'https://www.linkedin.com/in/cleo-quell-3c4d5e;(415) 555-0142;cleo@example.org;Quellcorp',
  'linkedin.com/in/dan-quell-4d5e6f/;415 555 0143;;"Quell; Sons"',
  'https://www.linkedin.com/company/quellcorp;415 555 0144;office@example.com;Quellcorp',
  'https://www.linkedin.com/in/eva-quell-5e6f7a;12;eva@example.org;',
  '',
].join('\r\n');

const site = new Site();
let token;

before(async () => {
  const people = site.file('people.csv', ['profileUrl,phone,email,observedAt,basis', `${ADA},+14155550123,ada@example.com,2026-05-01,consent`,
    `${BO},+14155550124,bo@example.com,2026-05-01,consent`, 'https://www.xing.com/profile/Ada_Quell,,ada@example.com,2026-05-02,consent', ''].join('\n'));
  site.run('import', people, '--source', 'crm');
  token = site.run('token', 'create', 'Recruiting').trim();
  await site.serve();
  for (const [name, role] of [['olga', 'operator'], ['paula', 'privacy'], ['anton', 'auditor'], ['ada', 'admin']]) await site.user(name, role);
  for (let times = 0; times < 3; times += 1) assert.equal(await site.look('fetchPersonalEmail', token, ADA), 200);
  assert.equal(await site.look('fetchPhoneNumber', token, BO), 200);
});

after(() => site.end());

test('the types that the scripts are checked with are those of the admin API', async () => {
  const file = new URL('../crates/admin/assets/types/admin-api.d.ts', import.meta.url);
  const types = typesOf(await (await fetch(`${site.base}api/v1/openapi.json`)).json());
  if (process.env.CONTACTD_WRITE_TYPES) writeFileSync(file, types);
  assert.equal(readFileSync(file, 'utf8'), types, 'the admin API has changed: run `npm run types`');
});

test('the operator loads a messy file through the mapping, and creates a token', async () => {
  const page = await site.open('olga');
  await site.go(page, 'people');
  await page.getByRole('heading', { name: 'Your role does not allow this' }).waitFor();
  await site.go(page, 'imports/new');
  await page.getByLabel('Choose a file').setInputFiles(site.file('leads.csv', Buffer.from(`\ufeff${MESSY}`, 'utf16le')));
  await page.getByRole('heading', { name: 'Which column is what?' }).waitFor();
  await page.getByLabel('Source', { exact: true }).fill('fair');
  await page.locator('select[data-column="Mobile"]').selectOption('phone');
  await page.locator('select[data-column="Private mail"]').selectOption('email');
  await page.getByLabel('Country of numbers').selectOption('US');
  await page.getByText('loaded in part').waitFor();
  await picture(page, 'import-columns');
  await page.getByRole('button', { name: 'Check all rows' }).click();
  await page.getByText(/more than 10 ?%/).waitFor();
  await picture(page, 'import-checked');
  await page.getByRole('button', { name: 'Import it anyway' }).click();
  await page.getByLabel(/^Type/).fill('2');
  await page.locator('dialog').getByRole('button', { name: 'Import' }).click();
  await page.getByText(/Import \d+ is finished/).waitFor();
  await picture(page, 'import-done');
  const [download] = await Promise.all([page.waitForEvent('download'), page.getByRole('link', { name: /rejected rows/i }).click()]);
  assert.match(readFileSync(await download.path(), 'utf8'), /company\/quellcorp/);
  assert.equal(download.suggestedFilename(), 'rejected-rows-leads.csv');
  assert.equal(await site.look('fetchPhoneNumber', token, 'https://www.linkedin.com/in/cleo-quell-3c4d5e'), 200);
  assert.equal(await site.look('fetchPersonalEmail', token, 'https://www.linkedin.com/in/eva-quell-5e6f7a'), 200);

  await site.go(page, 'tokens');
  await page.getByRole('button', { name: 'Create a token' }).click();
  await page.getByLabel('Name').fill('shop');
  await picture(page, 'token-create');
  await page.getByRole('button', { name: 'Create', exact: true }).click();
  await page.getByText('shown only once').waitFor();
  await page.getByRole('button', { name: 'Copy the token' }).click();
  await page.getByText('Copied').waitFor();
  const made = await page.evaluate(() => navigator.clipboard.readText());
  await page.getByRole('button', { name: 'I have saved it' }).click();
  assert.equal(await site.look('fetchPhoneNumber', made, BO), 200);
  await page.getByRole('link', { name: 'shop' }).click();
  await page.getByRole('button', { name: 'Revoke' }).click();
  await page.locator('dialog').getByRole('button', { name: 'Revoke' }).click();
  await page.getByText('Lookups with this token are refused.').waitFor();
  assert.equal(await site.look('fetchPhoneNumber', made, BO), 401);

  await site.go(page, 'tokens');
  await page.getByRole('button', { name: 'Create a token' }).click();
  await page.getByLabel('Name').fill('shop-tests');
  await page.getByLabel('For tests only').check();
  await page.getByRole('button', { name: 'Create', exact: true }).click();
  const sandbox = await page.locator('code.secret').innerText();
  assert.match(sandbox, /^ctd_test_\w{38}$/);
  await page.getByRole('button', { name: 'I have saved it' }).click();
  await page.locator('tr', { hasText: 'shop-tests' }).locator('.badge', { hasText: 'sandbox' }).waitFor();
  assert.equal(await site.look('fetchPhoneNumber', sandbox, BO), 404);
  assert.equal(await site.look('fetchPhoneNumber', sandbox, 'https://www.linkedin.com/in/sandbox-hit'), 200);
  await page.getByRole('link', { name: 'shop-tests' }).click();
  await page.getByText('The sandbox answers this token').waitFor();

  await site.go(page, 'imports');
  await picture(page, 'imports');
  site.check();
});

test('the privacy officer handles an opt-out by e-mail, an access request and an erasure', async () => {
  const page = await site.open('paula');
  await site.go(page, 'people');
  const find = async (who, ticket = '') => {
    await page.getByLabel('Profile URL').fill(who);
    await page.getByLabel('Ticket').fill(ticket);
    await page.keyboard.press('Enter');
    await page.locator('.person').waitFor();
  };
  await find('ada@example.com', 'DSR-102');
  await page.getByText('Recruiting').first().waitFor();
  await picture(page, 'person');
  await page.getByRole('button', { name: 'Report' }).click();
  await page.getByRole('heading', { name: 'What we hold about you' }).waitFor();
  await picture(page, 'report');
  assert.ok(!page.url().includes('ada'), 'nothing personal is in the address');
  const [download] = await Promise.all([page.waitForEvent('download'), page.getByRole('button', { name: 'Save as a file' }).click()]);
  assert.match(readFileSync(await download.path(), 'utf8'), /ada@example\.com/);
  assert.equal(download.suggestedFilename(), 'access-report-DSR-102.html');

  await site.go(page, 'people');
  await find('ada@example.com', 'DSR-101');
  await page.getByRole('button', { name: 'Opt out', exact: true }).click();
  await picture(page, 'opt-out');
  await page.locator('dialog').getByRole('button', { name: 'Opt out' }).click();
  await page.getByText('Opted out.', { exact: false }).first().waitFor();
  assert.equal(await site.look('fetchPersonalEmail', token, ADA), 404);

  // An address of one profile leads to it.
  await find('bo@example.com');
  await page.getByRole('link', { name: 'https://linkedin.com/in/bo-quell-2b3c4d' }).click();
  await page.getByRole('heading', { name: 'https://linkedin.com/in/bo-quell-2b3c4d' }).waitFor();

  // Only the label of a number is wrong: it is not given out any more.
  await find(BO);
  await page.getByRole('button', { name: 'Correct +14155550124' }).click();
  await page.getByLabel('It is').selectOption('work');
  // What has begun cannot be cancelled, so the box stays until it is done.
  let go;
  const answered = new Promise((resolve) => { go = resolve; });
  await page.route('**/people/correct', async (route) => { await answered; await route.continue(); });
  await page.locator('dialog').getByRole('button', { name: 'Correct' }).click();
  assert.ok(await page.getByRole('button', { name: 'Cancel' }).isDisabled());
  for (let times = 0; times < 3; times += 1) await page.keyboard.press('Escape');
  await page.getByText('Waiting until every server has confirmed it.', { exact: false }).waitFor();
  assert.ok(await page.locator('dialog').isVisible());
  go();
  await page.getByText('Corrected. Lookups do not give it out, because it is a work value.').waitFor();
  assert.equal(await site.look('fetchPhoneNumber', token, BO), 404);
  await page.getByText('Work phone number, confidence 100').waitFor();
  assert.equal(await page.getByText('Personal phone number').count(), 0);
  await page.getByRole('button', { name: 'Correct +14155550124' }).click();
  await page.getByLabel('The right phone number').fill('+1 415 555 0124');
  await page.getByLabel('It is').selectOption('personal');
  await page.locator('dialog').getByRole('button', { name: 'Correct' }).click();
  await page.getByText('Corrected. Lookups give out the new value from now on.').waitFor();
  assert.equal(await site.look('fetchPhoneNumber', token, BO), 200);

  await find(BO);
  await page.getByRole('button', { name: 'Erase' }).click();
  await page.locator('dialog').waitFor();
  await page.locator('dialog').getByLabel('Ticket').fill('DSR-103');
  await picture(page, 'erase');
  await page.locator('dialog').getByRole('button', { name: 'Erase' }).click();
  await page.getByText('Erased:').waitFor();
  assert.equal(await site.look('fetchPhoneNumber', token, BO), 404);
  site.check();

  const lines = JSON.parse(site.run('audit', 'show', '--actor', 'paula', '--json'));
  const done = lines.map(({ operation, ticket }) => `${operation} ${ticket ?? ''}`.trim());
  for (const line of ['subject DSR-102', 'suppress DSR-101', 'erase DSR-103', 'subject search']) assert.ok(done.includes(line), `${line} is on record: ${done}`);
});

/** Counts what somebody clicks and chooses in a page. */
async function countClicks(page) {
  await page.evaluate(() => {
    window.clicks = 0;
    addEventListener('click', ({ isTrusted }) => { window.clicks += Number(isTrusted); }, true);
    addEventListener('change', ({ target }) => { window.clicks += Number(target.matches('select, input[type=file]')); }, true);
  });
  return () => page.evaluate(() => window.clicks);
}

test('a name leads to the person, and a report and an erasure take six clicks', async () => {
  site.run('put', 'https://www.linkedin.com/in/k%C3%A4the-m%C3%BCller', '--email', 'kaethe@example.com');
  const page = await site.open('paula');
  await site.go(page, 'people');
  await page.getByLabel('Profile URL').fill('quell');
  await page.keyboard.press('Enter');
  await page.getByRole('link', { name: /ada-quell/ }).waitFor();
  await page.locator('#nav').getByRole('link', { name: 'Overview' }).click();

  const clicks = await countClicks(page);
  await page.locator('#nav').getByRole('link', { name: 'People' }).click();
  await page.getByLabel('Profile URL').fill('Käthe Müller');
  await page.getByLabel('Ticket').fill('DSR-201');
  await page.getByRole('button', { name: 'Search' }).click();
  await page.getByRole('heading', { name: 'https://linkedin.com/in/k%C3%A4the-m%C3%BCller' }).waitFor();
  await page.getByRole('button', { name: 'Report' }).click();
  const [download] = await Promise.all([page.waitForEvent('download'), page.getByRole('button', { name: 'Save as a file' }).click()]);
  assert.equal(download.suggestedFilename(), 'access-report-DSR-201.html');
  assert.equal(await page.locator('#page .primary').count(), 0, 'what was done is not the next thing to do');
  await page.getByRole('button', { name: 'Erase' }).click();
  await page.locator('dialog').getByRole('button', { name: 'Erase' }).click();
  await page.getByText('Erased:').waitFor();
  assert.ok(await clicks() <= 6, `${await clicks()} clicks`);
  console.log(`# a report and an erasure of one person: ${await clicks()} clicks`);
  site.check();
});

test('a German file is served after eight clicks', async () => {
  const page = await site.open('olga');
  const clicks = await countClicks(page);
  await page.locator('#nav').getByRole('link', { name: 'Imports' }).click();
  await page.getByRole('link', { name: 'Import a file' }).click();
  const person = 'https://www.linkedin.com/in/j%C3%B6rg-quell-7a8b9c';
  await page.getByLabel('Choose a file').setInputFiles(site.file('messe.csv', `LinkedIn;Handy;E-Mail privat\r\n${person};0171 3920012;joerg@example.org\r\n`));
  await page.getByRole('heading', { name: 'Which column is what?' }).waitFor();
  await page.getByLabel('Source', { exact: true }).fill('Messe Köln');
  for (const [column, kind] of [['Handy', 'phone'], ['E-Mail privat', 'email']]) {
    const select = page.locator(`select[data-column="${column}"]`);
    if (await select.inputValue() !== kind) await select.selectOption(kind);
  }
  await page.getByLabel('Country of numbers').selectOption('DE');
  await page.getByRole('button', { name: 'Check all rows' }).click();
  await page.getByRole('button', { name: 'Import', exact: true }).click();
  const asked = page.locator('dialog').getByRole('button', { name: 'Import' });
  await asked.or(page.getByText(/Import \d+ is finished/)).first().waitFor();
  if (await asked.count()) await asked.click();
  await page.getByText(/Import \d+ is finished/).waitFor();
  assert.ok(await clicks() <= 8, `${await clicks()} clicks`);
  console.log(`# a German CSV to the first lookup: ${await clicks()} clicks`);
  assert.equal(await site.look('fetchPhoneNumber', token, person), 200);
  site.check();
});

test('the columns of a source are offered for its next file, and another country and a mistyped source are pointed out', async () => {
  const page = await site.open('olga');
  const rows = (ending) => `Profil;Mobil;Mail\r\n${[['ida', '0664'], ['jo', '0650'], ['kim', '0676']].map(([name, code]) => `https://www.linkedin.com/in/${name}-${ending};${code} 123456;\r\n`).join('')}`;
  const choose = async (name, content) => {
    await site.go(page, 'imports/new');
    await page.getByLabel('Choose a file').setInputFiles(site.file(name, content));
    await page.getByRole('heading', { name: 'Which column is what?' }).waitFor();
  };
  await choose('kunden-1.csv', rows('nuvel-1'));
  await page.getByLabel('Source', { exact: true }).fill('Kunden');
  await page.getByLabel('Country of numbers').selectOption('AU');
  await page.getByText('probably not numbers of Australia, but of').waitFor();
  await page.getByRole('button', { name: 'Use Austria' }).click();
  assert.equal(await page.getByLabel('Country of numbers').inputValue(), 'AT');
  await page.getByText('+43664123456').waitFor();
  await page.getByText('in the file: 0664 123456').waitFor();
  await page.getByRole('button', { name: 'Check all rows' }).click();
  await page.getByRole('button', { name: 'Import', exact: true }).click();
  await page.locator('dialog').getByRole('button', { name: 'Import' }).click();
  await page.getByText(/Import \d+ is finished/).waitFor();

  await choose('kunden-2.csv', rows('nuvel-2'));
  await page.getByRole('button', { name: 'Read it like Kunden' }).click();
  await page.getByRole('button', { name: 'Read it like Kunden' }).waitFor({ state: 'detached' });
  assert.equal(await page.locator('select[data-column="Mobil"]').inputValue(), 'phone');
  assert.equal(await page.getByLabel('Country of numbers').inputValue(), 'AT');
  assert.equal(await page.getByLabel('Source', { exact: true }).inputValue(), 'Kunden');
  await page.getByLabel('Source', { exact: true }).fill('Kundne');
  await page.getByRole('button', { name: 'Check all rows' }).click();
  await page.getByText('Did you mean Kunden?').waitFor();
  await page.getByRole('button', { name: 'Check again as Kunden' }).click();
  await page.getByText('Did you mean Kunden?').waitFor({ state: 'detached' });
  await page.getByRole('button', { name: 'Import', exact: true }).waitFor();
  site.check();
});

test('a workbook of objections is looked at before it is opted out', async () => {
  const page = await site.open('paula');
  await site.go(page, 'opt-outs');
  await page.getByLabel('Choose a list').setInputFiles(new URL('../fixtures/messy/68-three-phones.xlsx', import.meta.url).pathname);
  await page.getByRole('button', { name: 'Continue' }).click();
  await page.getByText('The list names 6 people, numbers and addresses.').waitFor();
  await page.getByText('Read from the columns LinkedIn, Mobil, Telefon privat, Telefon geschäftlich.').waitFor();
  await page.locator('dialog').getByRole('button', { name: 'Opt out' }).click();
  await page.getByText(/\d opted out, \d opted out already/).waitFor();
  await site.go(page, 'opt-outs');
  await page.getByLabel('Choose a list').setInputFiles(new URL('../fixtures/messy/60-macros.xlsx', import.meta.url).pathname);
  await page.getByRole('button', { name: 'Continue' }).click();
  await page.getByText('save it as .xlsx without macros').waitFor();
  site.check();
});

test('a list of opt-outs opts out the people, too, and links those who are left', async () => {
  const rows = ['ina', 'jan'].map((name) => `https://www.linkedin.com/in/${name}-nuvel,+141555501${name === 'ina' ? 61 : 62},${name}@example.net`);
  site.run('import', site.file('two.csv', ['profileUrl,phone,email', ...rows, ''].join('\n')), '--source', 'two');
  const page = await site.open('paula');
  const send = async (address, isWhole) => {
    await site.go(page, 'opt-outs');
    await page.getByLabel('Or paste them here').fill(address);
    await page.getByRole('button', { name: 'Continue' }).click();
    if (isWhole) await page.getByLabel('Also opt out the people').check();
    await page.locator('dialog').getByRole('button', { name: 'Opt out' }).click();
    await page.getByText('opted out already').waitFor();
  };
  await send('ina@example.net', false);
  await page.getByRole('link', { name: 'https://linkedin.com/in/ina-nuvel' }).click();
  await page.getByRole('heading', { name: 'https://linkedin.com/in/ina-nuvel' }).waitFor();
  assert.equal(await site.look('fetchPhoneNumber', token, 'https://www.linkedin.com/in/ina-nuvel'), 200);
  await send('jan@example.net', true);
  assert.equal(await page.getByRole('heading', { name: 'Still given out' }).count(), 0);
  assert.equal(await site.look('fetchPhoneNumber', token, 'https://www.linkedin.com/in/jan-nuvel'), 404);
  site.check();
});

test('the auditor verifies the journal, and takes a proof away that `audit verify` accepts', async () => {
  const page = await site.open('anton');
  await site.go(page, 'audit');
  await page.locator('.journal').waitFor();
  await picture(page, 'audit');
  await page.getByLabel('Operation').selectOption('Phone number looked up');
  await page.getByRole('button', { name: 'Show', exact: true }).click();
  await page.getByRole('cell', { name: 'Phone number looked up' }).first().waitFor();
  assert.equal(await page.getByRole('cell', { name: 'E-mail address looked up' }).count(), 0);
  await site.go(page, 'audit/proof');
  await page.getByRole('button', { name: 'Verify now' }).click();
  await page.getByText('The journal is whole').first().waitFor();
  await picture(page, 'verified');
  await site.go(page, 'audit/proof');
  await page.getByRole('button', { name: 'Make the proof' }).click();
  const [download] = await Promise.all([page.waitForEvent('download'), page.getByText('Download the proof').click()]);
  // What was done is not the next thing to do.
  await page.locator('#page .primary').waitFor({ state: 'detached' });
  const root = site.run('audit', 'root').trim();
  site.run('audit', 'verify', '--proof', await download.path(), '--root', root.split(/\s/)[0]);
  site.check();
});

test('the admin adds a user and sets up a second factor', async () => {
  const page = await site.open('ada');
  await site.go(page, 'users');
  await page.getByRole('button', { name: 'Add a user' }).click();
  await page.getByLabel('Name').fill('uwe');
  await page.getByRole('button', { name: 'Add', exact: true }).click();
  await page.getByText('shown only once').waitFor();
  await page.getByRole('button', { name: 'I have saved it' }).click();
  await picture(page, 'users');
  await site.go(page, 'account');
  await page.getByRole('button', { name: 'Set up' }).click();
  const secret = await page.locator('dialog').getByText(/^[A-Z2-7 ]{32,}$/).innerText();
  await page.getByLabel('Code', { exact: true }).fill(code(secret));
  await page.locator('dialog').getByLabel('Password').fill('not the password');
  await page.getByRole('button', { name: 'Switch it on' }).click();
  await page.locator('dialog').getByText('The current password is wrong').waitFor();
  await page.locator('dialog').getByLabel('Password').fill(PASSWORD);
  await page.getByRole('button', { name: 'Switch it on' }).click();
  await page.getByText('The second factor is on').waitFor();

  const other = await site.open();
  await other.getByLabel('Name').fill('ada');
  await other.getByLabel('Password').fill(PASSWORD);
  await other.keyboard.press('Enter');
  await other.getByLabel('Code').fill(code(secret, 1));
  await other.keyboard.press('Enter');
  await other.locator('#user-menu').waitFor();
  await site.go(other, 'account');
  await other.getByRole('button', { name: 'Switch it off' }).click();
  await other.locator('dialog').getByLabel('Password').fill(PASSWORD);
  await other.locator('dialog').getByRole('button', { name: 'Switch it off' }).click();
  await other.getByText('The second factor is off').waitFor();
  site.check();
});

test('the overview tells nobody without a shell to use one', async () => {
  const page = await site.open('anton');
  await page.getByText('never: ask an operator to make one').waitFor();
  assert.equal(await page.getByText(/contactd (backup|audit|token)/).count(), 0);
  const other = await site.open('olga');
  await other.getByText('never: run contactd backup on the server').waitFor();
});

test('without any user, the page says how the first is made', async () => {
  const bare = new Site();
  try {
    await bare.serve();
    const page = await bare.open();
    await page.getByText('contactd user create NAME --role admin').waitFor();
    await bare.user('ada', 'admin');
    await page.reload();
    await page.getByRole('button', { name: 'Log in' }).waitFor();
    assert.equal(await page.getByText('contactd user create').count(), 0);
    bare.check();
  } finally {
    await bare.end();
  }
});

test('a page that nobody uses is covered, and what was typed is still there', async () => {
  const page = await site.open('paula');
  await site.go(page, 'people');
  await page.getByLabel('Profile URL').fill('ada@example.com');
  site.run('user', 'role', 'paula', 'admin');
  await page.keyboard.press('Enter');
  await page.getByRole('heading', { name: 'Your session has ended' }).waitFor();
  await page.locator('dialog.covers-page').getByLabel('Password').fill(PASSWORD);
  await page.keyboard.press('Enter');
  await page.locator('.person').waitFor();
  site.check();
});
