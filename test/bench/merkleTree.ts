import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import pino from 'pino';
import { TreeThread } from '../../projections/merkleTree/treeThread.ts';
import { removeViewFile } from '../../projections/viewDatabase.ts';
import { merkleTreeFile } from '../../projections/views.ts';
import { loadOrCreateKey } from '../../src/disk/keyFile.ts';
import { fileSize } from '../../src/disk/sqlite.ts';
import { readToEnd } from '../../src/eventStore/readEvents.ts';
import { openLogReader } from '../../src/eventStore/sqlite/read.ts';
import { sleep } from '../../src/time/sleep.ts';
import { issueToken } from '../../src/tokens/issueToken.ts';
import { ROOT } from './checkout.ts';
import { startService, stopContender } from './contender.ts';
import { measureLoad } from './load.ts';
import { getName, MAIN_CONNECTIONS, postName, SERVICE, WITHOUT_TREE } from './names.ts';
import { type Job, runRounds } from './rounds.ts';
import { named } from './servers.ts';
import { type Bench, POSTING_USERS } from './setUp.ts';

const STORES = new URL('../../src/stores.ts', import.meta.url).href;
const ROUNDS = 3;
const CHECKPOINTS = 200;
const POLL_MS = 5;

/** Measures what the Merkle tree costs POST and GET, how fast it follows, and what an auditor waits for. */
export async function measureTree(bench: Bench): Promise<void> {
  const data = await bench.fullLog();
  await measureCatchUp(bench, data);
  await measureQuick(bench, data);
  await measureCheckpoints(bench, data);
  await measureCost(bench);
}

/** POST and GET with the tree and without it, interleaved. */
async function measureCost(bench: Bench): Promise<void> {
  const { keyFile, emptyLog, options, results } = bench;
  await using resources = new AsyncDisposableStack();
  const start = (name: string, env: Record<string, string>) =>
    named(name, startService({ DATA_DIR: emptyLog(), KEY_FILE: keyFile, ...env }), resources);
  const servers = [await start(SERVICE, {}), await start(WITHOUT_TREE, { MERKLE_TREE: 'off' })];
  const load = { connections: MAIN_CONNECTIONS, users: POSTING_USERS };
  const jobs = servers.flatMap(({ name, contender }): Job[] => [
    { name: postName(name), measure: () => measureLoad(bench, contender, { method: 'POST', ...load }) },
    { name: getName(name), measure: () => measureLoad(bench, contender, { method: 'GET', ...load }) },
  ]);
  await runRounds(jobs, options.rounds, results);
}

/** The tree of the full log, from nothing, and a bare loop that reads the log. */
async function measureCatchUp({ results, options }: Bench, data: string): Promise<void> {
  const ratios: number[] = [];
  for (let round = 0; round < ROUNDS; round++) {
    const bare = await readLoop(data);
    const tree = await buildTree(data, options.events);
    const perSecond = Math.round((1_000 * options.events) / tree);
    console.log(
      `Merkle tree ${Math.round(tree)} ms (${perSecond} events/s), bare read loop ${Math.round(bare)} ms`,
    );
    ratios.push(bare / tree);
  }
  results.addFigure('Merkle tree of the full log / bare read loop', '', ratios);
  results.addFigure('Merkle tree: bytes an event', '≤ 40', [fileSize(merkleTreeFile(data)) / options.events]);
}

async function readLoop(data: string): Promise<number> {
  const log = openLogReader(join(data, 'log.db'));
  const started = performance.now();
  for await (const _ of readToEnd(log, { signal: new AbortController().signal }));
  const took = performance.now() - started;
  await log.close();
  return took;
}

async function buildTree(data: string, events: number): Promise<number> {
  const file = merkleTreeFile(data);
  removeViewFile(file);
  const started = performance.now();
  const logger = pino({ level: 'warn' });
  const tree = new TreeThread({
    file,
    log: { module: STORES, location: { dataDir: data } },
    logger,
    onProgress: () => {},
  });
  while (tree.notReady !== undefined || tree.current.size < events) await sleep(POLL_MS);
  const took = performance.now() - started;
  await tree.close();
  return took;
}

/** The time of the whole process. */
async function measureQuick({ results, options, keyFile }: Bench, data: string): Promise<void> {
  const seconds: number[] = [];
  for (let round = 0; round < ROUNDS; round++) {
    const started = performance.now();
    const child = spawn(process.execPath, ['src/main.ts', 'verify', '--quick'], {
      cwd: ROOT,
      env: { ...process.env, DATA_DIR: data, KEY_FILE: keyFile },
      stdio: 'ignore',
    });
    const [code] = await once(child, 'exit');
    if (code !== 0) throw new Error(`verify --quick ended with ${code}`);
    seconds.push((performance.now() - started) / 1_000);
  }
  results.addFigure(`verify --quick with ${options.events} events, seconds`, '< 1', seconds);
}

/** Each after a POST, so that most have another size. */
async function measureCheckpoints({ results, keyFile }: Bench, data: string): Promise<void> {
  const { privateKey } = loadOrCreateKey(keyFile);
  const token = await issueToken(privateKey, { subject: 'carol', lifetime: '1d', scope: 'audit' });
  const service = await startService({ DATA_DIR: data, KEY_FILE: keyFile });
  const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' };
  const checkpoint = () => fetch(`${service.url}/checkpoint`, { headers });
  while ((await checkpoint()).status !== 200) await sleep(POLL_MS);
  const took: number[] = [];
  for (let i = 0; i < CHECKPOINTS; i++) {
    const body = JSON.stringify({ id: Date.now() * 100 + i, name: 'Fern' });
    await (await fetch(`${service.url}/plants`, { method: 'POST', headers, body })).text();
    const started = performance.now();
    const response = await checkpoint();
    await response.text();
    if (response.status !== 200) throw new Error(`/checkpoint returned ${response.status}`);
    took.push(performance.now() - started);
  }
  await stopContender(service);
  const sorted = took.sort((a, b) => a - b);
  const at = (part: number) => sorted[Math.floor(part * sorted.length)] as number;
  results.addFigure('/checkpoint: p50, ms', '', [at(0.5)]);
  results.addFigure('/checkpoint: p99, ms', '≤ 10', [at(0.99)]);
}
