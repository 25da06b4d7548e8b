// Every page of the console in every state: what pages.test.mjs looks at once, and soak/pages.mjs with each role and size.

import { PAGES, PASSWORD, Site } from './console.mjs';

export const ADA = 'https://www.linkedin.com/in/ada-quell-1a2b3c';
const LONG_SLUG = `${'hildegard-'.repeat(6)}von-quellenbrunn-nuvel`;
const LONG_SOURCE = 'Applicant tracking of the subsidiary in Quellenbrunn, northern region, everything since 2019';

/** Whose name is as long as a name may be. */
export const LONG_NAME = 'hildegard-adelheid-maximiliane.von-quellenbrunn-nuvel_the-second'.slice(0, 64);

/** The pages that a role may see. */
export const pagesOf = (permissions) => PAGES.filter((route) => {
  const needs = { imports: 'imports', export: 'export', retention: 'retention', tokens: 'tokens', usage: 'usage', audit: 'audit',
    people: 'people', 'opt-outs': 'optOuts', system: 'nodes', users: 'users', overview: 'overview' };
  const needed = route === 'audit/proof' ? 'auditProof' : needs[route.split('/')[0]];
  return !needed || permissions.includes(needed);
});

/** A service with people, tokens, opt-outs and lookups, some with long names, and a user of each role. */
export async function fullSite() {
  const site = new Site();
  const rows = Array.from({ length: 12 }, (_, at) => `https://www.linkedin.com/in/quell-${at}-nuvel,+141555501${at + 10},desk@example.com`);
  site.run('import', site.file('people.csv', ['profileUrl,phone,email', `${ADA},+14155550123,ada@example.com`,
    'https://www.xing.com/profile/Ada_Quell,,ada@example.com', ...rows, ''].join('\n')), '--source', 'crm');
  const long = `profileUrl,phone,email,basis\nhttps://www.linkedin.com/in/${LONG_SLUG},+14155550143,${'hildegard.'.repeat(5)}nuvel@mail.department.quellenbrunn.example.org,legitimate interest of the recruiting department\n`;
  site.run('import', site.file('the-export-of-everybody-in-the-northern-region-since-2019-final-version-2.csv', long), '--source', LONG_SOURCE);
  const token = site.run('token', 'create', 'Recruiting').trim();
  site.run('token', 'create', 'The synchronisation of the customer relationship management in Quellenbrunn', '--rate', '50/s', '--burst', '100', '--quota', '200000/month', '--expires', '10d');
  site.run('token', 'create', 'Tests of the shop', '--sandbox');
  site.run('suppress', `https://www.linkedin.com/in/${LONG_SLUG}`, '--ticket', 'DSR-2026-11-19-000000000017');
  await site.serve();
  for (const [name, role] of [['olga', 'operator'], ['paula', 'privacy'], ['anton', 'auditor'], [LONG_NAME, 'admin']]) await site.user(name, role);
  for (let times = 0; times < 3; times += 1) await site.look('fetchPersonalEmail', token, ADA);
  await site.look('fetchPhoneNumber', token, 'https://www.linkedin.com/in/nobody-on-file-0000');
  await site.look('fetchPhoneNumber', 'ctd_wrong', ADA);
  return site;
}

/** A service with a user and nothing else. */
export async function emptySite() {
  const site = new Site();
  await site.serve();
  await site.user('ada', 'admin');
  return site;
}

/** A page of the console whose calls can be held, or fail. */
export class Scene {
  constructor(site, page) {
    this.site = site;
    this.page = page;
    this.calls = 'answered';
  }

  static async open(site, name, options) {
    const page = await site.open(name, { ...options, bypassCSP: true });
    const scene = new Scene(site, page);
    await page.route(/\/api\/v1\/(?!session)/, (route) => {
      if (scene.calls === 'answered') return route.fallback();
      if (scene.calls === 'held') return undefined;
      return route.fulfill({ status: 503, contentType: 'application/json', body: JSON.stringify({ status: 'service_unavailable',
        message: 'The store cannot be used now: the database of the cluster does not answer. Try again in a moment.' }) });
    });
    return scene;
  }

  async close() {
    await this.page.context().close();
  }

  /** Opens a page in a state: `answered`, `held` or `failing`. */
  async show(route, calls = 'answered') {
    this.calls = 'answered';
    await this.page.evaluate(() => document.querySelectorAll('dialog').forEach((dialog) => dialog.close()));
    await this.turnTo('nowhere', 'h1');
    this.calls = calls;
    await this.turnTo(route, calls === 'held' ? '.loading' : 'h1');
  }

  async turnTo(route, awaited) {
    await this.page.evaluate((hash) => {
      document.querySelectorAll('#page > *').forEach((old) => old.classList.add('of-page-before'));
      location.hash = hash;
    }, `#/${route}`);
    await this.page.locator(`#page > :not(.of-page-before)${awaited === 'h1' ? '' : awaited}`).first().waitFor({ state: 'attached' });
    await this.page.locator(`#page ${awaited}:not(.of-page-before)`).first().waitFor({ state: 'attached' });
  }

  async search(who) {
    await this.show('people');
    await this.page.getByLabel('Profile URL').fill(who);
    await this.page.keyboard.press('Enter');
    await this.page.locator('.person').waitFor();
  }

  click(name) {
    return this.page.getByRole('button', { name, exact: true }).first().click();
  }
}

/** What is seen after more than opening a page: its name, the permission, and how to get there. */
export const DEEPER = [
  ['a person', 'people', (scene) => scene.search('ada@example.com')],
  ['a person with long names', 'people', (scene) => scene.search(`https://www.linkedin.com/in/${LONG_SLUG}`)],
  ['an address of twelve people', 'people', (scene) => scene.search('desk@example.com')],
  ['people of a name', 'people', (scene) => scene.search('quell nuvel')],
  ['nobody', 'people', (scene) => scene.search('nobody of this name')],
  ['an opt-out', 'people', async (scene) => { await scene.search('desk@example.com'); await scene.click('Opt out'); }],
  ['an erasure', 'people', async (scene) => { await scene.search('desk@example.com'); await scene.click('Erase'); await scene.page.locator('dialog').waitFor(); }],
  ['a correction', 'people', async (scene) => { await scene.search('ada@example.com'); await scene.click('Correct +14155550123'); }],
  ['a list of opt-outs', 'optOuts', async (scene) => {
    await scene.show('opt-outs');
    const lines = Array.from({ length: 12 }, (_, at) => `https://www.linkedin.com/in/quell-${at}-nuvel;;somebody`);
    const file = { name: 'objections.csv', mimeType: 'text/csv', buffer: Buffer.from(['LinkedIn;Telefon privat;E-Mail', ...lines, ''].join('\n')) };
    await scene.page.getByLabel('Choose a list').setInputFiles(file);
    await scene.click('Continue');
    await scene.page.locator('dialog').waitFor();
  }],
  ['a report', 'people', async (scene) => { await scene.search('ada@example.com'); await scene.click('Report'); await scene.page.locator('.report').waitFor(); }],
  ['a file', 'imports', async (scene) => {
    await scene.show('imports/new');
    const content = `LinkedIn;Handy privat;${'E-Mail-Adresse der Abteilung '.repeat(3)};Firma\n${ADA};415 555 0142;cleo@example.org;Quellcorp\n`;
    await scene.page.getByLabel('Choose a file').setInputFiles({ name: `${'messe-quellenbrunn-'.repeat(4)}2026.csv`, mimeType: 'text/csv', buffer: Buffer.from(content) });
    await scene.page.getByRole('heading', { name: 'Which column is what?' }).waitFor();
  }],
  ['a token', 'tokens', async (scene) => { await scene.show('tokens'); await scene.page.getByRole('link', { name: /^The sync/ }).click(); await scene.page.locator('.breadcrumb').waitFor(); }],
  ['a token of the sandbox', 'tokens', async (scene) => { await scene.show('tokens'); await scene.page.getByRole('link', { name: 'Tests of the shop' }).click(); await scene.page.locator('.breadcrumb').waitFor(); }],
  ['a new token', 'tokens', async (scene) => { await scene.show('tokens'); await scene.click('Create a token'); }],
  ['a new user', 'users', async (scene) => { await scene.show('users'); await scene.click('Add a user'); }],
  ['a second factor', null, async (scene) => { await scene.show('account'); await scene.click('Set up'); await scene.page.locator('dialog').waitFor(); }],
  ['a verification', 'auditProof', async (scene) => { await scene.show('audit/proof'); await scene.click('Verify now'); await scene.page.getByText('The journal is whole').first().waitFor(); }],
  ['a page that is not allowed or not there', null, (scene) => scene.show('nowhere/at/all')],
];

/** Somebody who has just been added logs in: the form, and the page where they have to choose a password. */
export async function firstLogIn(site, name, options, look) {
  const first = site.run('user', 'create', name, '--role', 'operator').trim();
  const page = await site.open(null, { ...options, bypassCSP: true });
  await page.locator('.login-page').waitFor();
  await look('log in', page);
  await page.getByLabel('Name').fill(name);
  await page.getByLabel('Password').fill(first);
  await page.keyboard.press('Enter');
  await page.getByText('Choose your own password first.').waitFor();
  await look('first password', page);
  await page.getByLabel('Password now').fill(first);
  await page.getByLabel('New password', { exact: true }).fill(PASSWORD);
  await page.getByLabel('New password again').fill(PASSWORD);
  await page.getByRole('button', { name: 'Change the password' }).click();
  await page.getByRole('heading', { name: 'Overview', exact: true }).waitFor();
  await page.context().close();
}
