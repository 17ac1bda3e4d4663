import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { loadOrCreateKey } from '../../src/disk/keyFile.ts';
import { issueToken } from '../../src/tokens/issueToken.ts';
import { ROOT } from './checkout.ts';
import { startService, stopContender } from './contender.ts';
import type { Bench } from './setUp.ts';

const ROUNDS = 3;

/** Measures the auditor's commands over the whole log, and a bare loop that reads it. */
export async function measureAudit({ options, keyFile, results, fullLog }: Bench): Promise<void> {
  const data = await fullLog();
  const rounds: AuditTimes[] = [];
  for (let round = 0; round < ROUNDS; round++) {
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
}

/** The duration of each for the whole log, in milliseconds. */
type AuditTimes = { bare: number; rebuild: number; verify: number; replay: number; http: number };

/** Each is a process, over the same log. */
async function auditOnce(data: string, keyFile: string, events: number): Promise<AuditTimes> {
  const env = { DATA_DIR: data, KEY_FILE: keyFile };
  const command = (name: string) => timed(['src/main.ts', name], env);
  const bare = await timed(['test/bench/readStore.ts', join(data, 'log.db')], env);
  const rebuild = await command('rebuild');
  const verify = await command('verify');
  const replay = await command('replay');
  const http = await timedReplay(env, keyFile);
  for (const [name, { lines }] of Object.entries({ replay, http }))
    if (lines !== events) throw new Error(`${name} gave ${lines} of ${events} events`);
  return { bare: bare.ms, rebuild: rebuild.ms, verify: verify.ms, replay: replay.ms, http: http.ms };
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

async function linesIn(stream: AsyncIterable<Uint8Array>): Promise<number> {
  const NEWLINE = 0x0a;
  let lines = 0;
  for await (const chunk of stream)
    for (let at = chunk.indexOf(NEWLINE); at !== -1; at = chunk.indexOf(NEWLINE, at + 1)) lines++;
  return lines;
}
