import { execFileSync } from 'node:child_process';
import { cpSync, existsSync, mkdtempSync, rmSync } from 'node:fs';
import { cpus, tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { Command, InvalidArgumentError } from 'commander';
import {
  measureCommand,
  measureLoad,
  measureStart,
  type Process,
  type Sample,
  startServer,
  untilSigned,
} from './measure.ts';
import { requirePackages, toNumber } from './options.ts';
import { PEER_USERS, peerSubjects, peerTable, type Subject } from './peers.ts';
import { writeLog, writeTokens } from './seed.ts';

// Measures this checkout, a second one and a reference without storage side by side. A ratio compares two samples of the
// same round, so a machine of varying speed affects both in the same way.

/** What is measured, and its reference. */
const PARTS = {
  post: 'POST /plants on an empty log; a Fastify that stores nothing',
  get: 'GET /plants?limit=100 on a full log; a Fastify that lists from memory',
  lists: 'GET as above beside 64 connections that create plants; the same Fastify',
  replay: 'replay of a full log; a loop that reads and parses all events',
  verify: 'verify of a full log with its views; the same loop',
  'catch-up': 'a start without views, until they have caught up with a full log; the same loop',
  peers: 'POST and GET at 1, 64 and 256 connections; other databases and libraries (only if named)',
};
type Part = keyof typeof PARTS;
type ReferencedPart = Exclude<Part, 'peers'>;
const DEFAULT_PARTS: Part[] = ['post', 'get', 'replay', 'verify'];
type Checkout = { name: string; root: string };
type Options = {
  only: Part[];
  events: number;
  rounds: number;
  seconds: number;
  connections: number;
  users: number;
  against?: string;
};

const ROOT = join(import.meta.dirname, '..');
/** The entry of a checkout. */
const MAIN = 'src/cli/main.ts';
const REFERENCE = 'reference';
/** Connections of `lists`. */
const WRITERS = 64;
const LIST_CONNECTIONS = 16;
const OWN = 'this checkout';

const options = readOptions();
requirePackages();
await using resources = new AsyncDisposableStack();
const dir = mkdtempSync(join(tmpdir(), 'plant-bench-'));
resources.defer(() => rmSync(dir, { recursive: true }));
const env = { KEY_FILE: join(dir, 'key.json') };
const tokenFile = await writeTokens(dir, env.KEY_FILE, { users: options.users });
const auditor = await writeTokens(dir, env.KEY_FILE, { users: 1, scope: 'audit' });
const own: Checkout = { name: OWN, root: ROOT };
const other = options.against && { name: commitOf(options.against), root: options.against };
const checkouts = other ? [own, other] : [own];
const fullLogs = new Map<string, string>();

const subjects: Subject[] = [];
for (const part of options.only) {
  if (part === 'peers') {
    subjects.push(...(await peers()));
    continue;
  }
  subjects.push({ part, name: REFERENCE, measure: await reference(part), samples: [] });
  for (const checkout of checkouts)
    subjects.push({ part, name: checkout.name, measure: await measurementOf(part, checkout), samples: [] });
}
for (let round = 0; round <= options.rounds; round++) {
  console.log(round === 0 ? 'warming up' : `round ${round} of ${options.rounds}`);
  for (const { measure, samples } of round % 2 === 0 ? subjects : subjects.toReversed()) {
    const sample = await measure();
    if (round > 0) samples.push(sample);
  }
}
console.log(
  `Node ${process.version}, ${cpus().length} cores (${cpus()[0]?.model}), ${options.events} events`,
);
console.table(subjects.map(row));
if (options.only.includes('peers')) console.log(peerTable(subjects, median));

async function peers(): Promise<Subject[]> {
  const users = await writeTokens(dir, env.KEY_FILE, { users: PEER_USERS });
  const { seconds } = options;
  const own = { name: OWN, args: [MAIN] };
  return peerSubjects({ own, root: ROOT, dir, env, tokenFile: users, seconds, resources });
}

async function reference(part: ReferencedPart): Promise<Subject['measure']> {
  if (isLoad(part)) return loadOn(part, { root: ROOT, args: ['bench/bareServer.ts'] });
  const args = ['bench/bareLoop.ts', join(await fullLog(own), 'log.db')];
  return () => measureCommand({ root: ROOT, args }, options.events);
}

async function measurementOf(part: ReferencedPart, checkout: Checkout): Promise<Subject['measure']> {
  const { root } = checkout;
  const onData = (data: string, ...args: string[]) => ({ root, args, env: { ...env, DATA_DIR: data } });
  if (part === 'post') return loadOn(part, onData(mkdtempSync(join(dir, 'data-')), MAIN));
  const data = await fullLog(checkout);
  if (part === 'get') return loadOn(part, onData(data, MAIN));
  if (part === 'lists') return loadOn(part, onData(copyOf(data), MAIN)); // it grows
  const { events } = options;
  if (part === 'catch-up') return () => measureStart(onData(logOf(data), MAIN), events);
  return () => measureCommand(onData(data, MAIN, part), events);
}

function copyOf(data: string): string {
  const copy = mkdtempSync(join(dir, 'copy-'));
  cpSync(data, copy, { recursive: true });
  return copy;
}

/** A copy of a data directory without views. */
function logOf(data: string): string {
  const copy = mkdtempSync(join(dir, 'log-'));
  cpSync(join(data, 'log.db'), join(copy, 'log.db'));
  return copy;
}

type LoadPart = 'post' | 'get' | 'lists';

function isLoad(part: Part): part is LoadPart {
  return part === 'post' || part === 'get' || part === 'lists';
}

async function loadOn(part: LoadPart, process: Process): Promise<Subject['measure']> {
  const server = await startServer(process);
  resources.defer(server.stop);
  const { seconds, connections } = options;
  const post = { method: 'POST' as const, seconds, connections, tokenFile };
  const get = { ...post, method: 'GET' as const, query: '?limit=100' };
  if (part === 'lists')
    return () =>
      measureLoad(server, { ...get, connections: LIST_CONNECTIONS }, [{ ...post, connections: WRITERS }]);
  return () => measureLoad(server, part === 'post' ? post : get);
}

/** A data directory of the checkout's own, with its views. */
async function fullLog({ name, root }: Checkout): Promise<string> {
  const existing = fullLogs.get(name);
  if (existing !== undefined) return existing;
  const data = mkdtempSync(join(dir, 'full-'));
  writeLog(join(data, 'log.db'), options.events, options.users);
  const server = await startServer({ root, args: [MAIN], env: { ...env, DATA_DIR: data } });
  await untilSigned(server.url, auditor);
  await server.stop();
  fullLogs.set(name, data);
  return data;
}

function row({ part, name, samples }: Subject) {
  const ours = subjects.find((subject) => subject.part === part && subject.name === own.name)?.samples;
  const middle = (of: keyof Sample) => median(samples.map((sample) => sample[of]));
  const ratio = (of: keyof Sample): string => {
    const ratios = samples.map((sample, round) => (ours?.[round]?.[of] ?? Number.NaN) / sample[of]);
    const [least, most] = [Math.min(...ratios), Math.max(...ratios)];
    return name === own.name
      ? ''
      : `${median(ratios).toFixed(2)} (${least.toFixed(2)} to ${most.toFixed(2)})`;
  };
  return {
    part,
    measured: name,
    'per second': Math.round(middle('perSecond')),
    'p50 ms': rounded(middle('p50')),
    'p99 ms': rounded(middle('p99')),
    'CPU µs each': Math.round(middle('cpu')),
    MiB: Math.round(middle('memory')),
    'per second: this checkout / it': ratio('perSecond'),
    'CPU: this checkout / it': ratio('cpu'),
  };
}

function rounded(ms: number): number {
  return Math.round(ms * 10) / 10;
}

function median(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? Number.NaN;
}

function commitOf(root: string): string {
  return execFileSync('git', ['-C', root, 'rev-parse', '--short', 'HEAD'], { encoding: 'utf8' }).trim();
}

function readOptions(): Options {
  const parts = Object.entries(PARTS).map(([name, what]) => `  ${name.padEnd(8)}${what}`);
  return new Command('npm run bench --')
    .description(
      'Measures the service beside references and another checkout, interleaved, in rounds; `npm run bench -- scale` measures a log that grows.',
    )
    .option('--only <parts>', 'what to measure, comma-separated', toParts, DEFAULT_PARTS)
    .option('--events <n>', 'events of the full log', toNumber, 300_000)
    .option('--rounds <n>', 'rounds; medians and the spread of ratios are printed', toNumber, 5)
    .option('--seconds <n>', 'duration of one load', toNumber, 4)
    .option('--connections <n>', 'connections of a load', toNumber, 64)
    .option('--users <n>', 'users whose plants the log has, and who send the requests', toNumber, 1_000)
    .option('--against <dir>', 'a checkout of another commit, with its node_modules', toCheckout)
    .addHelpText('after', `\nParts, and what they are compared with:\n${parts.join('\n')}`)
    .parse()
    .opts<Options>();
}

function toParts(text: string): Part[] {
  const names = text.split(',');
  for (const name of names)
    if (!Object.hasOwn(PARTS, name)) throw new InvalidArgumentError(`There is no part ${name}.`);
  return names as Part[];
}

function toCheckout(path: string): string {
  for (const needed of [MAIN, 'node_modules'])
    if (!existsSync(join(path, needed))) throw new InvalidArgumentError(`It has no ${needed}.`);
  return resolve(path);
}
