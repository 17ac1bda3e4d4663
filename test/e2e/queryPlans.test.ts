import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { tempDir } from '@event-sourced/testing/tempDir';
import { afterAll, expect, test } from 'vitest';
import { DOCUMENTED } from '../support/documentedRequests.ts';
import { startServer } from '../support/server.ts';
import { checkpointOf } from '../support/service.ts';

/** More events than a tile has hashes, so that each table that grows with the log has several rows. */
const EVENTS = 300;
/** Of streams with at most MAX_INDEXED_EVENTS; other reads go by position. */
const SORTS_FEW =
  /WHERE stream >= \? AND stream < \? AND \+position (>|<=) \?\s+ORDER BY \+position( DESC)? LIMIT \?/;

type Planned = { sql: string; plan: string[] };

const dir = tempDir(afterAll);
const planned = await planStatements();

/** Sends each documented request to a service, and returns each statement that it has prepared until its end. */
async function planStatements(): Promise<Planned[]> {
  const PLANS = join(tempDir(afterAll), 'plans');
  const recorder = new URL('../support/recordPlans.ts', import.meta.url);
  const env = { DATA_DIR: dir, MERKLE_TREE: 'on', PLANS, NODE_OPTIONS: `--import ${recorder}` };
  const server = await startServer({ env }, afterAll);
  const plants = Array.from({ length: EVENTS }, (_, id) => server.as('zoe').create(id, { name: 'Fern' }));
  for (const { status } of await Promise.all(plants)) expect(status).toBe(200);
  await checkpointOf(EVENTS, server.as('carol', 'audit'));
  for (const [, , path, init, scope = 'audit'] of DOCUMENTED)
    await (await server.as('alice', scope).request(path, init)).text();
  expect((await server.terminate()).code).toBe(0);
  const lines = readFileSync(PLANS, 'utf8').trimEnd().split('\n');
  return [...new Set(lines)].map((line) => JSON.parse(line));
}

/** The tables with more than one row. */
function growingTables(): string[] {
  return readdirSync(dir)
    .filter((file) => file.endsWith('.db'))
    .flatMap((file) => {
      using db = new DatabaseSync(join(dir, file), { readOnly: true });
      const tables = db.prepare("SELECT name FROM sqlite_schema WHERE type = 'table'").all();
      return tables.flatMap(({ name }) =>
        db.prepare(`SELECT 1 FROM ${name}`).all().length > 1 ? `${name}` : [],
      );
    });
}

test('no statement of the service scans or sorts a table that grows with the log', () => {
  const tables = growingTables().sort();
  expect(tables).toEqual(['events', 'plants', 'tiles']);
  const grows = RegExp(`^SCAN (main\\.)?(${tables.join('|')})\\b|^USE TEMP B-TREE`);
  const growing = planned.filter(({ plan }) => plan.some((step) => grows.test(step)));
  expect(growing.filter(({ sql }) => !SORTS_FEW.test(sql))).toEqual([]);
  expect(growing).toHaveLength(2);
});

test('the statements are those of every thread, and of an erasure', () => {
  const all = planned.map(({ sql }) => sql).join('\n');
  for (const one of ['INSERT INTO events', 'FROM tiles', 'FROM plants', 'UPDATE main.events'])
    expect(all).toContain(one);
});
