import { join } from 'node:path';
import { tempDir } from '@event-sourced/testing/tempDir';
import { expect } from 'vitest';
import { runCommand } from '../../packages/transparency-log/test/support/program.ts';
import { runCli, succeeded } from './cli.ts';
import { auditorToken } from './eventStream.ts';
import type { startServiceWithTree } from './service.ts';

type Service = Awaited<ReturnType<typeof startServiceWithTree>>;

/** An auditor who has the key of the log, a token, and a file for the last checkpoint. */
export async function auditorOf({ dir, url }: Service) {
  const state = join(tempDir(), 'state');
  const key = succeeded(await runCli(['log-key'], { DATA_DIR: dir })).trim();
  const token = await auditorToken(dir);
  const monitor = (at = url, ...options: string[]) => {
    const args = ['--url', at, '--key', key, '--state', state, '--once', ...options];
    return runCommand(['monitor', ...args], { token });
  };
  /** The output of a monitor that finds nothing, when the tree has this number of events. */
  const monitored = async (size: number): Promise<string> => {
    const headers = { authorization: `Bearer ${token}` };
    const checkpoint = async () => (await fetch(`${url}/checkpoint`, { headers })).text();
    await expect.poll(checkpoint).toContain(`\n${size}\n`);
    return succeeded(await monitor());
  };
  return { state, key, monitor, monitored };
}
