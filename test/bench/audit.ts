import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { loadOrCreateKey } from '../../src/disk/keyFile.ts';
import { sleep } from '../../src/time/sleep.ts';
import { issueToken } from '../../src/tokens/issueToken.ts';
import { ROOT } from './checkout.ts';
import { startService, stopContender } from './contender.ts';
import type { Bench } from './setUp.ts';

/** Measures the auditor's commands over the whole log, and a bare loop that reads it. */
export async function measureAudit({ options, keyFile, results, fullLog }: Bench): Promise<void> {
  const data = await fullLog();
  const rounds: AuditTimes[] = [];
  for (let round = 0; round < options.rounds; round++) {
    const times = await auditOnce(data, keyFile, options.events);
    const texts = Object.entries(times).map(([name, ms]) => `${name} ${Math.round(ms)} ms`);
    console.log(texts.join(', '));
    rounds.push(times);
  }
  const beside = (name: string, goal: string, of: keyof AuditTimes): void =>
    results.addFigure(
      `${name} / bare read loop`,
      goal,
      rounds.map((times) => times.bare / times[of]),
    );
  beside('replaying over HTTP', '≥ 0.5', 'http');
  beside('npm run replay', '≥ 0.5', 'replay');
  beside('npm run verify', '≥ 0.25', 'verify');
  beside('npm run rebuild', '', 'rebuild');
  beside('npm run monitor, from the first event', '≥ 0.5', 'monitor');
}

/** The duration of each for the whole log, in milliseconds. */
type AuditTimes = {
  bare: number;
  rebuild: number;
  verify: number;
  replay: number;
  http: number;
  monitor: number;
};

/** Each is a process, over the same log. */
async function auditOnce(data: string, keyFile: string, events: number): Promise<AuditTimes> {
  const env = { DATA_DIR: data, KEY_FILE: keyFile };
  const command = (name: string) => timed(['src/main.ts', name], env);
  const bare = await timed(['test/bench/readStore.ts', join(data, 'log.db')], env);
  const rebuild = await command('rebuild');
  const verify = await command('verify');
  const replay = await command('replay');
  const http = await timedReplay(env, keyFile);
  const monitor = await timedMonitor(env, keyFile, events);
  for (const [name, { lines }] of Object.entries({ replay, http }))
    if (lines !== events) throw new Error(`${name} gave ${lines} of ${events} events`);
  return { bare: bare.ms, rebuild: rebuild.ms, verify: verify.ms, replay: replay.ms, http: http.ms, monitor };
}

type Timed = { ms: number; lines: number };

async function timed(args: string[], env: Record<string, string>): Promise<Timed> {
  const { EVENTSTOREDB_URL: _, ...inherited } = process.env;
  const started = performance.now();
  const child = spawn(process.execPath, args, {
    cwd: ROOT,
    env: { ...inherited, ...env },
    stdio: ['ignore', 'pipe', 'ignore'],
  });
  const ended = once(child, 'exit');
  const lines = await linesIn(child.stdout);
  const [code] = await ended;
  if (code !== 0) throw new Error(`${args.join(' ')} ended with ${code}`);
  return { ms: performance.now() - started, lines };
}

async function timedReplay(env: Record<string, string>, keyFile: string): Promise<Timed> {
  const { privateKey } = loadOrCreateKey(keyFile);
  const token = await issueToken(privateKey, { subject: 'carol', lifetime: '1d', scope: 'audit' });
  const server = await startService(env);
  const started = performance.now();
  const { body } = await fetch(`${server.url}/events`, { headers: { authorization: `Bearer ${token}` } });
  const lines = await linesIn(body as AsyncIterable<Uint8Array>);
  const ms = performance.now() - started;
  await stopContender(server);
  return { ms, lines };
}

/** The first check of a log whose Merkle tree is complete, in milliseconds. */
async function timedMonitor(env: Record<string, string>, keyFile: string, events: number): Promise<number> {
  const { privateKey } = loadOrCreateKey(keyFile);
  const token = await issueToken(privateKey, { subject: 'carol', lifetime: '1d', scope: 'audit' });
  const server = await startService(env);
  const headers = { authorization: `Bearer ${token}` };
  const get = async (path: string) => (await fetch(`${server.url}${path}`, { headers })).text();
  while (!(await get('/checkpoint')).includes(`\n${events}\n`)) await sleep(100);
  const key = (await get('/log-key')).trim();
  const dir = mkdtempSync(join(tmpdir(), 'plant-store-'));
  const args = ['--url', server.url, '--key', key, '--state', join(dir, 'checkpoint'), '--once'];
  const { ms } = await timed(['src/main.ts', 'monitor', ...args], { TOKEN: token });
  rmSync(dir, { recursive: true });
  await stopContender(server);
  return ms;
}

async function linesIn(stream: AsyncIterable<Uint8Array>): Promise<number> {
  const NEWLINE = 0x0a;
  let lines = 0;
  for await (const chunk of stream)
    for (let at = chunk.indexOf(NEWLINE); at !== -1; at = chunk.indexOf(NEWLINE, at + 1)) lines++;
  return lines;
}
