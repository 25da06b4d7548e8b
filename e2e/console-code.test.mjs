// Checks the scripts of the console without running them: their types, and that no module imports itself through others.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';

const assets = fileURLToPath(new URL('../crates/admin/assets/', import.meta.url));
const scripts = readdirSync(`${assets}console`, { recursive: true }).filter((name) => name.endsWith('.js'));
const textOf = (script) => readFileSync(path.join(assets, 'console', script), 'utf8');

test('every script fits the types of the admin API', () => {
  assert.deepEqual(scripts.filter((script) => !textOf(script).startsWith('// @ts-check\n')), [], 'checked by editors, too');
  const compiler = createRequire(import.meta.url).resolve('typescript/bin/tsc');
  const { status, stdout } = spawnSync(process.execPath, [compiler, '--project', assets], { encoding: 'utf8' });
  assert.equal(status, 0, stdout);
});

test('no script imports itself through others', () => {
  const imports = new Map(scripts.map((script) => [script, [...textOf(script).matchAll(/^import [^']*'(\..*)';$/gm)]
    .map(([, target]) => path.join(path.dirname(script), target))]));
  const done = new Set();
  const visit = (script, way) => {
    assert.ok(!way.includes(script), `a cycle: ${[...way, script].join(' → ')}`);
    if (done.has(script)) return;
    for (const target of imports.get(script)) visit(target, [...way, script]);
    done.add(script);
  };
  for (const script of scripts) visit(script, []);
  assert.ok([...imports.values()].flat().length > scripts.length, 'imports are found');
});
