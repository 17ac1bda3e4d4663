import { existsSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { Command, InvalidArgumentError, Option } from 'commander';

/** What is measured, by the name in `--only`. */
const PARTS = {
  rebuild: 'rebuilding the view / a loop that inserts the same rows',
  start: 'time from the start until ready: with a full log, and with an empty one',
  audit: 'GET /events, replay, verify, rebuild / a loop that only reads',
  tree: 'the Merkle tree: POST and GET with it / without it, catch-up, checkpoints',
  metrics: 'POST and GET with metrics / without them',
  post: 'POST at 64 connections: service, bare Fastify, CRUD; with an empty and with a full log',
  connections: 'POST at 1, 8, 64, 256 and 1024 connections',
  get: 'GET at 64 connections: service, bare Fastify',
  eventstoredb: 'POST, GET, following on the server of EVENTSTOREDB_URL; only if it is set',
};
const GENERATORS = ['wrk', 'autocannon'] as const;
export type Part = keyof typeof PARTS;

export type Options = {
  only: ReadonlySet<Part>;
  rounds: number;
  seconds: number;
  events: number;
  against?: string;
  generator?: (typeof GENERATORS)[number];
  memory?: number;
  svg?: string;
  out: string;
};

/** The options of the command line; prints the help, or what is invalid, and ends the process. */
export function readOptions(argv: string[]): Options {
  const parts = Object.entries(PARTS).map(([name, what]) => `  ${name.padEnd(14)}${what}`);
  const command = new Command('npm run bench --')
    .description('Measures the service and what it is compared with, interleaved, in rounds.')
    .addOption(
      new Option('--only <parts>', 'what to measure, comma-separated')
        .argParser(toParts)
        .default(allParts(), 'everything'),
    )
    .option('--rounds <n>', 'rounds; the median and the spread are reported', toNumber, 5)
    .option('--seconds <n>', 'seconds of one load', toNumber, 4)
    .option('--events <n>', 'events of the full log, of 10000 users', toNumber, 1_000_000)
    .option(
      '--against <dir>',
      'a checkout of another commit, with its node_modules, to measure as well',
      toCheckout,
    )
    .addOption(
      new Option('--generator <name>', 'what sends the requests; default: wrk if it is installed').choices(
        GENERATORS,
      ),
    )
    .option('--memory <seconds>', 'measure only the memory while plants are created at full speed', toNumber)
    .option('--svg <file>', 'draw the part connections')
    .option('--out <file>', 'all measured values, as JSON', 'bench-results.json')
    .addHelpText(
      'after',
      `\nParts:\n${parts.join('\n')}\n
A full log of a million events takes half a minute to write; --memory writes up to a GiB a minute to TMPDIR.
The part eventstoredb writes as many plants to its server: use a separate one.`,
    )
    .parse(argv);
  const options = command.opts<Options>();
  if (options.svg && !options.only.has('connections')) command.error('--svg requires the part connections');
  return options;
}

function allParts(): ReadonlySet<Part> {
  const parts = new Set(Object.keys(PARTS) as Part[]);
  if (!process.env.EVENTSTOREDB_URL) parts.delete('eventstoredb');
  return parts;
}

function toParts(text: string): ReadonlySet<Part> {
  const names = text.split(',');
  for (const name of names)
    if (!Object.hasOwn(PARTS, name)) throw new InvalidArgumentError(`There is no part ${name}.`);
  if (names.includes('eventstoredb') && !process.env.EVENTSTOREDB_URL)
    throw new InvalidArgumentError('EVENTSTOREDB_URL is not set.');
  return new Set(names as Part[]);
}

function toNumber(text: string): number {
  if (!/^[1-9]\d*$/.test(text)) throw new InvalidArgumentError('It must be a whole number from 1.');
  return Number(text);
}

function toCheckout(dir: string): string {
  for (const needed of ['src/main.ts', 'test/bench/garden.ts', 'node_modules'])
    if (!existsSync(join(dir, needed))) throw new InvalidArgumentError(`It has no ${needed}.`);
  return resolve(dir);
}
