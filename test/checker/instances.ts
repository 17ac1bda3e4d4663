import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { tempDir } from '@event-sourced/testing/tempDir';
import { expect } from 'vitest';
import type { EventStore, Position } from '../../packages/event-log/src/eventStore.ts';
import { everything } from '../../packages/event-log/src/testing/contract.ts';
import { startService } from '../support/service.ts';
import type { Instance } from './client.ts';

/** A checkpoint has every event that the log had this long ago, in milliseconds. */
const CHECKPOINT_CACHE_MS = 1_000;
/** Log lines that no fault explains: a view that is rebuilt, a log that contradicts itself, an unexpected error. */
const UNEXPECTED =
  /^rebuilding view|^projection (restarts|failed|halted)|^the log contradicts|^response aborted|^uncaught|^unhandled|^the Merkle tree failed/;

type Line = { msg: string; err?: unknown };

/** Instances of the service over one event store, with one key, which can be restarted. */
export async function startInstances(count: number, env: Record<string, string>) {
  const keys = tempDir();
  const shared = { KEY_FILE: join(keys, 'key.json'), LOG_KEY_FILE: join(keys, 'log-key.json') };
  const start = (DATA_DIR: string) => startService({ MERKLE_TREE: 'on', ...env, ...shared, DATA_DIR });
  const logs: (() => Line[])[] = [];
  const all = Array.from({ length: count }, async (_, number) => {
    const dir = tempDir();
    let service = await start(dir);
    let runs = 1;
    const watch = ({ log }: typeof service): void => void logs.push(log);
    watch(service);
    return {
      number,
      get run() {
        return runs;
      },
      request: (user: string, path: string, { scope, ...init }: RequestInit & { scope?: string } = {}) =>
        service.as(user, scope).send(path, init),
      async restart(): Promise<void> {
        await service.close();
        service = await start(dir);
        runs++;
        watch(service);
      },
    } satisfies Instance & { restart(): Promise<void> };
  });
  const instances = await Promise.all(all);
  const vkey = (await (await instances[0]?.request('reader', '/log-key'))?.text()) ?? '';
  return {
    instances,
    vkey,
    /** Resolves when every instance responds to each kind of read, and no earlier checkpoint is served. */
    async upToDate(): Promise<void> {
      for (const { number, request } of instances)
        for (const path of ['/plants', '/checkpoint', '/events'])
          await expect
            .poll(async () => (await request('reader', path, { scope: 'audit' })).status, {
              interval: 50,
              message: `${path} of instance ${number}`,
            })
            .toBe(200);
      await pause(CHECKPOINT_CACHE_MS);
    },
    unexpectedLines: () =>
      logs
        .flatMap((lines) => lines())
        .filter(({ msg, err }) => UNEXPECTED.test(msg) || (msg === 'request failed' && err))
        .map((line) => JSON.stringify(line)),
  };
}

/** The log behind the instances. */
export const logOf = (store: EventStore) => ({
  events: () => everything(store),
  logPosition: async (position: Position) => `${await store.logId()}.${position}`,
});
