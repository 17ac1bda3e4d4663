import { mkdirSync, mkdtempSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Command } from 'commander';
import { measureCommand, measureLoad, memoryMiB, request, startServer, untilSigned } from './measure.ts';
import { requirePackages, toNumber } from './options.ts';
import { writeLog, writeTokens } from './seed.ts';

// Measures the service and its commands at several sizes of the embedded log.

type Figures = Record<string, string>;
type Options = { events: number; users: number; seconds: number };

const ROOT = join(import.meta.dirname, '..');
const MAIN = 'src/cli/main.ts';
/** Shares of the events. */
const SIZES = [0.1, 0.5, 1];
const DATABASES = { log: 'log.db', view: 'view.db', tree: 'merkleTree.db' };

const { events, users, seconds } = readOptions();
requirePackages();
await using resources = new AsyncDisposableStack();
const dir = mkdtempSync(join(tmpdir(), 'plant-scale-'));
resources.defer(() => rmSync(dir, { recursive: true }));
const data = join(dir, 'data');
mkdirSync(data);
const env = { KEY_FILE: join(dir, 'key.json'), DATA_DIR: data, MERKLE_TREE: 'on' };
const tokens = await writeTokens(dir, env.KEY_FILE, { users });
const auditor = await writeTokens(dir, env.KEY_FILE, { users: 1, scope: 'audit' });

const columns: [size: number, figures: Figures][] = [];
for (const size of SIZES.map((share) => Math.round(share * events))) {
  console.log(`${size} events`);
  const missing = writeLog(join(data, 'log.db'), size, users);
  const caughtUp = await catchUp(missing);
  columns.push([size, { ...caughtUp, ...bytes(size), ...(await service()), ...(await commands(size)) }]);
  console.log(table());
}

/** Starts the service with events that its view and tree lack. */
async function catchUp(missing: number): Promise<Figures> {
  const startedAt = performance.now();
  const { server } = await start();
  await untilSigned(server.url, auditor);
  const perSecond = (1_000 * missing) / (performance.now() - startedAt);
  await server.stop();
  return { 'catching up, events/s': perSecond.toFixed(0) };
}

function bytes(size: number): Figures {
  const sizes = Object.entries(DATABASES).map(([name, file]) => [
    `${name}, bytes an event`,
    (statSync(join(data, file)).size / size).toFixed(0),
  ]);
  return Object.fromEntries(sizes);
}

/** Starts the service, and measures how long it takes until it is ready. */
async function start() {
  const startedAt = performance.now();
  const server = await startServer({ root: ROOT, args: [MAIN], env });
  return { server, ms: performance.now() - startedAt };
}

/** The service from its start: the first responses, then both operations. */
async function service(): Promise<Figures> {
  const { server, ms: started } = await start();
  const { url, pid, stop } = server;
  const ms = async (path: string, token: string): Promise<string> => {
    const sentAt = performance.now();
    let response = await request(url, path, token);
    while (response.status === 503) response = await request(url, path, token);
    await response.text();
    if (!response.ok) throw new Error(`${path}: ${response.status}`);
    return (performance.now() - sentAt).toFixed(0);
  };
  const first = {
    'start, ms': started.toFixed(0),
    'MiB after the start': memoryMiB([pid]).toFixed(0),
    'first list of 100, ms': await ms('/plants?limit=100', tokens),
    'first checkpoint, ms': await ms('/checkpoint', auditor),
    'first 100 events of a user, ms': await ms('/events?user=user-0&limit=100', auditor),
  };
  const load = { connections: 64, seconds, tokenFile: tokens };
  const post = await measureLoad(server, { ...load, method: 'POST' });
  const get = await measureLoad(server, { ...load, method: 'GET', query: '?limit=100' });
  process.kill(pid, 'SIGKILL');
  await stop();
  const recovered = await start();
  await recovered.server.stop();
  return {
    ...first,
    'start after a kill, ms': recovered.ms.toFixed(0),
    'POST/s': post.perSecond.toFixed(0),
    'MiB after POST': post.memory.toFixed(0),
    'GET/s': get.perSecond.toFixed(0),
    'MiB after GET': get.memory.toFixed(0),
  };
}

async function commands(size: number): Promise<Figures> {
  const run = async (...args: string[]): Promise<string> => {
    const { perSecond } = await measureCommand({ root: ROOT, args: [MAIN, ...args], env }, size);
    return (size / perSecond).toFixed(1);
  };
  const file = join(dir, 'backup.db');
  const figures = {
    'backup, s': await run('backup', file),
    'verify, s': await run('verify'),
  };
  rmSync(file);
  return figures;
}

/** In Markdown: a row for each figure, a column for each size. */
function table(): string {
  const [[, first] = [0, {}]] = columns;
  const rows = Object.keys(first).map((name) => [name, ...columns.map(([, figures]) => figures[name])]);
  const head = ['events', ...columns.map(([size]) => size)];
  return [head, head.map(() => '---'), ...rows].map((cells) => `| ${cells.join(' | ')} |`).join('\n');
}

function readOptions(): Options {
  return new Command('npm run bench -- scale')
    .description('Measures the service and its commands at a tenth, half and all of the events.')
    .option('--events <n>', 'events of the embedded log', toNumber, 10_000_000)
    .option('--users <n>', 'users, who have as many plants each', toNumber, 10_000)
    .option('--seconds <n>', 'duration of one load', toNumber, 10)
    .parse()
    .opts<Options>();
}
