import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { loadOrCreateKey } from '../../src/disk/keyFile.ts';
import { issueToken } from '../../src/tokens/issueToken.ts';
import { type Checkout, checkouts, ROOT } from './checkout.ts';
import { chooseGenerator, type Generator } from './generator.ts';
import type { Options } from './options.ts';
import { Results } from './results.ts';

/** The users of a full log. */
export const USERS = 10_000;
/** So many of them create plants. */
export const POSTING_USERS = 1_000;

/** What the measurements share. */
export type Bench = {
  options: Options;
  /** Whose service is measured: the first is this one. */
  services: readonly Checkout[];
  /** A directory for everything that is written. */
  dir: string;
  keyFile: string;
  /** The tokens of `user-0`, `user-1` …, one a line. */
  tokenFile: string;
  generator: Generator;
  results: Results;
  /** A new data directory. */
  emptyLog: () => string;
  /** The data directory with a full log. Each checkout writes its own, when it is first needed. */
  fullLog: (root?: string) => Promise<string>;
};

export async function setUp(options: Options, dir: string): Promise<Bench> {
  const keyFile = join(dir, 'key.json');
  const tokenFile = join(dir, 'tokens');
  await writeTokens(tokenFile, keyFile);
  let dirs = 0;
  const emptyLog = (): string => {
    const data = join(dir, `data-${++dirs}`);
    mkdirSync(data);
    return data;
  };
  const full = new Map<string, Promise<string>>();
  return {
    options,
    services: checkouts(options.against),
    dir,
    keyFile,
    tokenFile,
    generator: chooseGenerator(options.generator),
    results: new Results(),
    emptyLog,
    fullLog(root = ROOT) {
      const data = full.get(root) ?? writeLog(root, emptyLog(), options.events);
      full.set(root, data);
      return data;
    },
  };
}

async function writeTokens(file: string, keyFile: string): Promise<void> {
  const { privateKey } = loadOrCreateKey(keyFile);
  const issue = (_: unknown, i: number) => issueToken(privateKey, { subject: `user-${i}`, lifetime: '1d' });
  const tokens = await Promise.all(Array.from({ length: USERS }, issue));
  writeFileSync(file, `${tokens.join('\n')}\n`);
}

async function writeLog(root: string, data: string, events: number): Promise<string> {
  console.log(`writing ${events} plants of ${USERS} users`);
  const { href } = pathToFileURL(join(root, 'test/bench/garden.ts'));
  const { writePlants }: typeof import('./garden.ts') = await import(href);
  writePlants(join(data, 'log.db'), events, USERS);
  return data;
}
