import { execFile, spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import type { Generator, Sent } from './generator.ts';

const SCRIPT = fileURLToPath(new URL('wrk.lua', import.meta.url));
const run = promisify(execFile);

/** wrk (https://github.com/wg/wrk) with one thread; undefined if it is not installed. */
export function wrkGenerator(): Generator | undefined {
  const { stdout, error } = spawnSync('wrk', ['--version'], { encoding: 'utf8' });
  if (error) return undefined;
  return {
    name: `${stdout.split(' [')[0]}, one thread`,
    async send({ method, url, connections, seconds, tokenFile, users, firstId }) {
      const options = ['--threads', '1', '--connections', `${connections}`, '--duration', `${seconds}s`];
      const args = [...options, '--timeout', '10s', '--script', SCRIPT, url, '--', method, tokenFile];
      const result = await run('wrk', [...args, `${users}`, `${firstId}`]);
      return parseResult(result.stdout);
    },
  };
}

/** What wrk.lua prints at the end, after wrk's own report. */
export function parseResult(output: string): Sent {
  const { requests, us, p50, p99, errors } = JSON.parse(output.trimEnd().split('\n').at(-1) ?? '');
  return { requests, seconds: us / 1e6, p50: p50 / 1e3, p99: p99 / 1e3, failed: errors };
}
