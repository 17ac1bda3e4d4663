import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { cpus, tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { parseArgs } from 'node:util';
import pino from 'pino';
import { Follower } from '../../projections/follow.ts';
import { PlantsByUser } from '../../projections/plantsByUser.ts';
import { openSqliteStore } from '../../src/eventStore/sqlite/store.ts';
import { issueToken } from '../../src/tokens/issueToken.ts';
import { loadOrCreateKey } from '../../src/tokens/keyFile.ts';
import { type AuditTimes, auditOnce } from './audit.ts';
import { caughtUp } from './caughtUp.ts';
import { startContender, stopContender } from './contender.ts';
import { appendAlone, followFromStart, startOver, visibility, writePlantsTo } from './eventStoreDb.ts';
import { writePlants } from './garden.ts';
import { listPlants, postPlants, type Rate } from './load.ts';

// Measures the service and its contenders in one run: ratios of pairs measured in the same round, so
// that a machine of varying speed affects both alike. `npm run bench -- --help` lists the options.

const { values } = parseArgs({
  options: {
    rounds: { type: 'string', default: '5' },
    seconds: { type: 'string', default: '4' },
    events: { type: 'string', default: '1000000' },
    out: { type: 'string', default: 'bench-results.json' },
    help: { type: 'boolean', default: false },
  },
});
if (values.help) {
  console.log(`npm run bench -- [--rounds 5] [--seconds 4] [--events 1000000] [--out bench-results.json]
EVENTSTOREDB_URL adds the measurements on EventStoreDB; it writes 1000000 plants there: use a separate server.`);
  process.exit();
}
const [ROUNDS, SECONDS, EVENTS] = [Number(values.rounds), Number(values.seconds), Number(values.events)];
const USERS = 10_000;

type Ratio = { name: string; goal: string; median: number; least: number; most: number };

const dir = mkdtempSync(join(tmpdir(), 'plant-bench-'));
const ratios: Ratio[] = [];
const rates: Record<string, Rate[]> = {};
const notes: Record<string, number> = {};
const { EVENTSTOREDB_URL } = process.env;
try {
  await measure();
} finally {
  rmSync(dir, { recursive: true, force: true });
}

async function measure(): Promise<void> {
  const keyFile = join(dir, 'key.json');
  const { privateKey } = loadOrCreateKey(keyFile);
  const everyone = await Promise.all(
    Array.from({ length: USERS }, (_, i) => issueToken(privateKey, { subject: `user-${i}`, lifetime: '1d' })),
  );
  const thousand = everyone.slice(0, 1_000);
  const [empty, full] = [join(dir, 'empty'), join(dir, 'full')];
  for (const data of [empty, full]) mkdirSync(data);
  console.log(`writing ${EVENTS} plants of ${USERS} users`);
  writePlants(join(full, 'log.db'), EVENTS, USERS);

  await measureRebuild(full);
  await measureStart(empty, full, keyFile);
  await measureAudit(full, keyFile);
  if (EVENTSTOREDB_URL) await measureFollowing(EVENTSTOREDB_URL);

  const env = { KEY_FILE: keyFile };
  const contenders = 'test/bench/contenders.ts';
  const bare = await startContender(contenders, ['bare'], env);
  const crud = await startContender(contenders, ['crud'], { ...env, DATABASE: join(dir, 'crud.db') });
  const service = await startContender('src/main.ts', [], { ...env, DATA_DIR: empty });
  const grown = await startContender('src/main.ts', [], { ...env, DATA_DIR: full });
  const all = [bare, crud, service, grown];
  const onEventStoreDb = async (name: string) =>
    EVENTSTOREDB_URL ? startOver(EVENTSTOREDB_URL, join(dir, name), keyFile) : undefined;
  const over = await onEventStoreDb('over');
  const beside = await onEventStoreDb('beside');

  console.log('warming up');
  for (const one of all) await postPlants(one, thousand, 3);
  for (const one of [bare, grown]) await listPlants(one, everyone, 4);

  if (over && beside) {
    await postPlants(over, thousand, 3);
    const taken = await visibility(over, beside, keyFile, 300);
    notes['ms from a POST here to the plant there, median'] = median(taken);
    notes['ms from a POST here to the plant there, 99th percentile'] =
      taken[Math.floor(taken.length * 0.99)] ?? 0;
    await stopContender(beside);
    await listPlants(over, everyone, 4);
  }
  const note = async (name: string, rate: Promise<Rate>): Promise<void> => {
    rates[name] ??= [];
    rates[name].push(await rate);
  };
  for (let round = 1; round <= ROUNDS; round++) {
    console.log(`round ${round} of ${ROUNDS}`);
    await note('POST, bare Fastify', postPlants(bare, thousand, SECONDS));
    await note('POST, service', postPlants(service, thousand, SECONDS));
    await note('POST, service, log grown', postPlants(grown, thousand, SECONDS));
    await note('POST, CRUD', postPlants(crud, thousand, SECONDS));
    await note('GET, bare Fastify', listPlants(bare, everyone, SECONDS));
    await note('GET, service, all users', listPlants(grown, everyone, SECONDS));
    await note('GET, service, one user', listPlants(grown, everyone.slice(0, 1), SECONDS));
    if (!EVENTSTOREDB_URL || !over) continue;
    await note('append, client alone', appendAlone(EVENTSTOREDB_URL, thousand.length, SECONDS));
    await note('POST, service on EventStoreDB', postPlants(over, thousand, SECONDS));
    await note('GET, service on EventStoreDB', listPlants(over, everyone, SECONDS));
  }
  for (const one of over ? [...all, over] : all) await stopContender(one);

  ratioOf('POST: service / bare Fastify', '≥ 0.8', 'POST, service', 'POST, bare Fastify');
  ratioOf('POST: service / CRUD', '≥ 4', 'POST, service', 'POST, CRUD');
  ratioOf(
    `POST: ${EVENTS} plants in the log / empty log`,
    '≥ 0.9',
    'POST, service, log grown',
    'POST, service',
  );
  ratioOf(
    `GET, ${USERS} users: service / bare Fastify`,
    '≥ 0.7',
    'GET, service, all users',
    'GET, bare Fastify',
  );
  ratioOf('GET, one user: service / bare Fastify', '≥ 1.0', 'GET, service, one user', 'GET, bare Fastify');
  if (over) {
    const [post, get] = ['POST, service on EventStoreDB', 'GET, service on EventStoreDB'];
    ratioOf('EventStoreDB: POST / append by the client alone', '≥ 0.85', post, 'append, client alone');
    ratioOf('EventStoreDB: GET / GET on the embedded log', '≥ 0.9', get, 'GET, service, all users');
  }
  report();
}

/** Measures the projection of EventStoreDB from its start, and the client's own subscription alone. */
async function measureFollowing(url: string): Promise<void> {
  await writePlantsTo(url, EVENTS, USERS);
  const pairs: number[] = [];
  const growth: number[] = [];
  for (let round = 0; round < 3; round++) {
    const { client, view, memory } = await followFromStart(url, dir);
    console.log(
      `view ${view.toFixed(1)} s, empty loop ${client.toFixed(1)} s; MiB ${memory.map(Math.round).join(' ')}`,
    );
    pairs.push(client / view);
    growth.push((memory[9] ?? Number.NaN) / (memory[3] ?? Number.NaN));
  }
  addRatio('EventStoreDB: following / subscription with an empty loop', '≥ 0.8', pairs);
  addRatio('EventStoreDB: memory at nine tenths of the log / at three', 'flat', growth);
}

/** Measures the auditor's commands over the whole log, and a bare loop that reads it. */
async function measureAudit(data: string, keyFile: string): Promise<void> {
  const rounds: AuditTimes[] = [];
  for (let round = 0; round < 3; round++) {
    const times = await auditOnce(data, keyFile, EVENTS);
    const texts = Object.entries(times).map(([name, ms]) => `${name} ${Math.round(ms)} ms`);
    console.log(texts.join(', '));
    rounds.push(times);
  }
  const beside = (name: string, goal: string, of: keyof AuditTimes): void => {
    const pairs = rounds.map((times) => times.bare / times[of]);
    addRatio(`${name} / bare read loop`, goal, pairs);
  };
  beside('replaying over HTTP', '≥ 0.5', 'http');
  beside('npm run replay', '≥ 0.5', 'replay');
  beside('npm run verify', '≥ 0.25', 'verify');
  beside('npm run rebuild', '', 'rebuild');
}

/** Measures a rebuild of the view, and a bare loop that inserts the same rows into the same table. */
async function measureRebuild(data: string): Promise<void> {
  const pairs: number[] = [];
  for (let round = 0; round < 3; round++) {
    const file = join(data, 'log.db');
    const bare = insertLoop(file, join(dir, `bare-${round}.db`));
    const view = new PlantsByUser(join(data, 'view.db'));
    view.reset('');
    const store = await openSqliteStore({ file, now: () => new Date(), onFatal: console.error });
    const started = performance.now();
    const follower = new Follower({ store, view, skip: new Set(), logger: pino({ level: 'warn' }) });
    await caughtUp(follower, await store.lastPosition());
    view.save();
    const rebuilt = performance.now() - started;
    await follower.stop();
    view.close();
    await store.close();
    console.log(`rebuild ${Math.round(rebuilt)} ms, bare loop ${Math.round(bare)} ms`);
    pairs.push(bare / rebuilt);
  }
  addRatio('rebuilding the view / bare insert loop', '≥ 0.5', pairs);
}

function insertLoop(log: string, file: string): number {
  using source = new DatabaseSync(log, { readOnly: true });
  const numbers = new Map<string, number>();
  const rows = source
    .prepare('SELECT position, data FROM events ORDER BY position')
    .all()
    .map(({ position, data }) => {
      const { user, id, name, tag } = JSON.parse(String(data));
      const number = (numbers.get(user) ?? 0) + 1;
      numbers.set(user, number);
      return [user, position as number, number, id, JSON.stringify({ name, tag })] as const;
    });
  new PlantsByUser(file).close();
  using db = new DatabaseSync(file);
  db.exec('PRAGMA synchronous = NORMAL; PRAGMA cache_size = -65536');
  const insert = db.prepare('INSERT INTO plants (user, position, number, id, plant) VALUES (?, ?, ?, ?, ?)');
  const BATCH = 500;
  const started = performance.now();
  for (let i = 0; i < rows.length; i += BATCH) {
    db.exec('BEGIN');
    for (const row of rows.slice(i, i + BATCH)) insert.run(...row);
    db.exec('COMMIT');
  }
  return performance.now() - started;
}

/** Measures the time from the start of the process until it is ready, with a full and an empty log. */
async function measureStart(empty: string, full: string, keyFile: string): Promise<void> {
  const readyAfter = async (data: string): Promise<number> => {
    const started = performance.now();
    const contender = await startContender('src/main.ts', [], { DATA_DIR: data, KEY_FILE: keyFile });
    const took = performance.now() - started;
    await stopContender(contender);
    return took;
  };
  await readyAfter(full); // binds the rebuilt view to its log
  const more: number[] = [];
  for (let round = 0; round < ROUNDS; round++)
    more.push(((await readyAfter(full)) - (await readyAfter(empty))) / 1_000);
  addRatio(`start with ${EVENTS} events: seconds more than with none`, '< 1', more);
}

function median(numbers: number[]): number {
  return [...numbers].sort((a, b) => a - b)[Math.floor(numbers.length / 2)] ?? Number.NaN;
}

function ratioOf(name: string, goal: string, of: string, to: string): void {
  const rateOf = (load: string, round: number) => rates[load]?.[round]?.perSecond ?? Number.NaN;
  addRatio(
    name,
    goal,
    Array.from({ length: ROUNDS }, (_, round) => rateOf(of, round) / rateOf(to, round)),
  );
}

function addRatio(name: string, goal: string, pairs: number[]): void {
  ratios.push({ name, goal, median: median(pairs), least: Math.min(...pairs), most: Math.max(...pairs) });
}

function report(): void {
  const round = (value: number, digits: number): number => Number(value.toFixed(digits));
  console.table(
    Object.entries(rates).map(([name, of]) => ({
      load: name,
      'per second': round(median(of.map(({ perSecond }) => perSecond)), 0),
      'CPU µs each': round(median(of.map(({ cpu }) => cpu)), 0),
      'p50 ms': median(of.map(({ p50 }) => p50)),
      'p99 ms': median(of.map(({ p99 }) => p99)),
    })),
  );
  console.table(
    ratios.map(({ name, goal, ...of }) => ({
      ratio: name,
      goal,
      median: round(of.median, 2),
      spread: `${of.least.toFixed(2)} to ${of.most.toFixed(2)}`,
    })),
  );
  if (Object.keys(notes).length > 0) console.table(notes);
  const machine = { node: process.version, cpu: cpus()[0]?.model, cores: cpus().length };
  const results = { machine, rounds: ROUNDS, seconds: SECONDS, rates, ratios, notes };
  writeFileSync(values.out, `${JSON.stringify(results, null, 2)}\n`);
  console.log(`written to ${values.out}`);
}
