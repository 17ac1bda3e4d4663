import { type SpawnOptions, spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, existsSync, openSync, readFileSync } from 'node:fs';
import type { Readable } from 'node:stream';
import { freePort } from '@event-sourced/node/testing';
import { tempDir } from '@event-sourced/testing/tempDir';
import { describe, expect, onTestFinished, test } from 'vitest';
import { canMount, smallDisk } from '../support/disk.ts';
import { MAIN, NODE, ROOT, signalGroup } from '../support/process.ts';

/** Requests with more log lines than a pipe and the queue can hold. */
const REQUESTS = 4_000;
const AT_ONCE = 100;
/** Short enough for the log line to have it whole. */
const LONG_PATH = `/${'x'.repeat(255)}`;
/** Throws an uncaught exception on SIGUSR2. */
const THROW = encodeURIComponent('process.on("SIGUSR2",()=>{throw new Error("thrown")})');

/** The service, live, with this standard output. */
async function serve(stdout: 'pipe' | number, command = [NODE, MAIN]) {
  const PORT = String(await freePort());
  const [file = '', ...args] = command;
  const options: SpawnOptions = {
    cwd: ROOT,
    env: {
      ...process.env,
      PORT,
      DATA_DIR: tempDir(),
      NODE_OPTIONS: `--import=data:text/javascript,${THROW}`,
    },
    stdio: ['ignore', stdout, 'inherit'],
    detached: true,
  };
  const child = spawn(file, args, options);
  const ended = once(child, 'exit').then(([code, signal]) => ({ code, signal }));
  onTestFinished(async () => {
    if (child.pid) signalGroup(child.pid, 'SIGKILL');
    await ended;
  });
  const url = `http://127.0.0.1:${PORT}`;
  const isLive = async () => (await fetch(`${url}/health/live`).catch(() => undefined))?.status === 200;
  await expect.poll(async () => child.exitCode ?? (await isLive())).toBe(true);
  return {
    stdout: child.stdout as Readable,
    kill: (signal: NodeJS.Signals) => child.kill(signal),
    ended,
    /** Sends requests with long log lines; the service responds to all of them. */
    async load(): Promise<void> {
      const statusOf = async (): Promise<number> => {
        const response = await fetch(`${url}${LONG_PATH}`);
        await response.arrayBuffer();
        return response.status;
      };
      for (let i = 0; i < REQUESTS; i += AT_ONCE)
        expect(new Set(await Promise.all(Array.from({ length: AT_ONCE }, statusOf)))).toEqual(new Set([404]));
      expect(await isLive()).toBe(true);
    },
  };
}

const countOf = (text: string, part: string): number => text.split(part).length - 1;
const droppedIn = (text: string): number =>
  [...text.matchAll(/"lines":(\d+),"msg":"dropped log lines"/g)].reduce(
    (sum, [, lines]) => sum + Number(lines),
    0,
  );

/** Signals that end the service, and its exit code. */
const ENDINGS = [
  ['SIGTERM', 0],
  ['SIGINT', 0],
  ['SIGHUP', 0],
  ['SIGUSR2', 1],
] as const;

type Server = Awaited<ReturnType<typeof serve>>;

/** What accepts no log lines. */
const OUTPUTS: [what: string, open: () => 'pipe' | number, close?: (server: Server) => unknown][] = [
  ['is not read', () => 'pipe'],
  ['is closed', () => 'pipe', ({ stdout }) => stdout.destroy()],
];
if (existsSync('/dev/full')) OUTPUTS.push(['is on a full disk', () => openSync('/dev/full', 'a')]);

describe.each(OUTPUTS)('standard output that %s', (_, open, close) => {
  test.each(ENDINGS)('does not keep the service from serving and ending on %s', async (signal, code) => {
    const stdout = open();
    onTestFinished(() => void (stdout !== 'pipe' && closeSync(stdout)));
    const server = await serve(stdout);
    close?.(server);
    await server.load();
    server.kill(signal);
    expect(await server.ended).toEqual({ code, signal: null });
  });
});

test.skipIf(!canMount)('standard output on a full disk is written again when there is space', async () => {
  const { dir, visiblePath, command, fill, free } = await smallDisk();
  const log = () => readFileSync(`${visiblePath}.log`, 'utf8');
  const [enter, into] = [
    command.slice(0, -2),
    ['sh', '-c', 'exec "$1" "$2" >> "$0"', `${dir}.log`, NODE, MAIN],
  ];
  const server = await serve('pipe', [...enter, ...into]);
  fill();
  await server.load();
  free();
  await expect.poll(() => droppedIn(log())).toBeGreaterThan(0);
  server.kill('SIGTERM');
  expect(await server.ended).toEqual({ code: 0, signal: null });
  expect(log()).toMatch(/"closing".*\n.*"closed"\}\n$/);
  expect(countOf(log(), LONG_PATH) + droppedIn(log())).toBe(REQUESTS);
});
