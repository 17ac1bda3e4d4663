import { join } from 'node:path';
import { tempDir } from '@event-sourced/testing/tempDir';
import { expect } from 'vitest';
import type { EventStore, Position } from '../../packages/event-log/src/eventStore.ts';
import { everything } from '../../packages/event-log/src/testing/contract.ts';
import { startService } from '../support/service.ts';
import { verifyCheckpoint } from '../support/tlogVerifier.ts';
import type { Instance } from './client.ts';

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
    /** Resolves when every instance responds to each kind of read, and has published a checkpoint of `size` events. */
    async upToDate(size: number): Promise<void> {
      for (const { number, request } of instances) {
        const read = (path: string) => request('reader', path, { scope: 'audit' });
        const untilIt = (what: string, it: () => Promise<unknown>) =>
          expect.poll(it, { interval: 50, message: `${what} of instance ${number}` });
        for (const path of ['/plants', '/checkpoint', '/events'])
          await untilIt(path, async () => (await read(path)).status).toBe(200);
        await untilIt('the size of /checkpoint', async () => {
          const checkpoint = await read('/checkpoint');
          return verifyCheckpoint(await checkpoint.text(), vkey).size;
        }).toBe(size);
      }
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
