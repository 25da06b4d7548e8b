// @ts-check
// All pages but the first. They are a script of their own, so that a browser does not wait for them before it shows the overview.

import { account } from './pages/account.js';
import { audit, recipients } from './pages/audit.js';
import { exportPage } from './pages/export.js';
import { importNew, importUpload } from './pages/import-file.js';
import { imports } from './pages/imports.js';
import { jobPage, jobs } from './pages/jobs.js';
import { optOuts } from './pages/opt-outs.js';
import { people } from './pages/people.js';
import { proof } from './pages/proof.js';
import { reportPage } from './pages/report.js';
import { retention } from './pages/retention.js';
import { system } from './pages/system.js';
import { token, tokens } from './pages/tokens.js';
import { usage } from './pages/usage.js';
import { users } from './pages/users.js';

/**
 * By the names that the table of routes has for them.
 * @type {Record<string, Page>}
 */
export const PAGES = {
  account, audit, exportPage, importNew, importUpload, imports, jobPage, jobs, optOuts, people, proof, recipients, reportPage, retention,
  system, token, tokens, usage, users,
};
