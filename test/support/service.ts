import { dirname, join } from 'node:path';
import { setImmediate as nextTurn, setTimeout as pause } from 'node:timers/promises';
import { rowsIn } from '@event-sourced/testing/logs';
import { type AtEnd, tempDir } from '@event-sourced/testing/tempDir';
import pino from 'pino';
import { afterAll, onTestFinished } from 'vitest';
import { REACHED_TIMEOUT_MS } from '../../packages/event-log/src/views/waiting.ts';
import { issueToken } from '../../packages/http/src/tokens/issueToken.ts';
import { loadOrCreateKey } from '../../packages/node/src/files/keyFile.ts';
import { readConfig } from '../../src/config.ts';
import { startService as start } from '../../src/service.ts';

export type Plant = { name: string; tag?: string };

/** For tests that wait for EventStoreDB, and not for the timeout. */
export const LONGEST_TIMEOUT = { EVENTSTOREDB_TIMEOUT: '60' };

/**
 * The whole service in this process, on a free port, until the end of the test, by default without the Merkle tree. Its
 * data is in `DATA_DIR` or a new directory.
 */
export async function startService(env: Record<string, string> = {}, atEnd: AtEnd = onTestFinished) {
  const dir = env.DATA_DIR ?? tempDir(atEnd);
  const lines: string[] = [];
  const logger = pino({ level: 'debug' }, { write: (line: string) => void lines.push(line) });
  const onFatal = (error: Error): never => {
    throw error;
  };
  const config = readConfig({ PORT: '0', DATA_DIR: dir, MERKLE_TREE: 'off', ...LONGEST_TIMEOUT, ...env });
  const service = await start(config, {
    logger,
    trackProgress: () => () => {},
    onFatal,
    closeIdleAfterMs: 0,
  });
  let closed: Promise<void> | undefined;
  const close = (): Promise<void> => {
    closed ??= service.close();
    return closed;
  };
  atEnd(close);
  const keys = dirname(config.keyFile);
  return {
    url: service.url,
    metricsUrl: service.metricsUrl,
    isNew: service.isNew,
    dir,
    /** The directory of its key. */
    keys,
    close,
    log: () => lines.map((line) => JSON.parse(line)),
    as: client(service.url, keys),
    /** An Authorization header. */
    bearer: async (user: string, scope?: string) => `Bearer ${await tokenOf(keys, user, scope)}`,
    /** The events of the log, read from its file. */
    events: (user?: string) =>
      rowsIn(join(dir, 'log.db'))
        .map((row) => ({ ...row, data: JSON.parse(row.data), metadata: JSON.parse(row.metadata) }))
        .filter(({ data }) => [data.user, undefined].includes(user)),
  };
}

/** One service for all tests of a file. */
export const serviceOfFile = (env: Record<string, string> = {}) => startService(env, afterAll);

/** The same with the Merkle tree. */
export const startServiceWithTree = (env: Record<string, string> = {}, atEnd: AtEnd = onTestFinished) =>
  startService({ MERKLE_TREE: 'on', ...env }, atEnd);

/** A token signed with the key in a data directory. */
export function tokenOf(dir: string, subject: string, scope?: string, lifetime = '1h'): Promise<string> {
  return issueToken(loadOrCreateKey(join(dir, 'key.json')).privateKey, { subject, lifetime, scope });
}

/** Clients of users, with tokens signed with the key in `dir`, and with an optional scope. */
export function client(url: string, dir: string) {
  const tokens = new Map<string, Promise<string>>();
  return (user: string, scope?: string) => {
    const send = async (path: string, init: RequestInit = {}): Promise<Response> => {
      const name = JSON.stringify([user, scope]);
      const token = tokens.get(name) ?? tokenOf(dir, user, scope);
      tokens.set(name, token);
      const headers = new Headers(init.headers);
      headers.set('authorization', `Bearer ${await token}`);
      return fetch(`${url}${path}`, { ...init, headers });
    };
    const request = (...given: Parameters<typeof send>) => untilReached(() => send(...given));
    /** POSTs this body. */
    const post = (body: string | Uint8Array<ArrayBuffer>, given: Record<string, string> = {}) => {
      const headers = { 'content-type': 'application/json', ...given };
      return request('/plants', { method: 'POST', body, headers });
    };
    return {
      /** Sends a request once. */
      send,
      request,
      post,
      /** Creates a plant; all digits of `id` are sent. */
      create: (id: bigint | number, plant: Plant) => post(`{"id":${id},${JSON.stringify(plant).slice(1)}`),
      /** GETs /plants with this query and these headers. */
      get: (query = '', headers: Record<string, string> = {}) => request(`/plants${query}`, { headers }),
      /** The complete list of plants. */
      list: async (): Promise<Plant[]> => (await request('/plants')).json() as Promise<Plant[]>,
    };
  };
}

/**
 * Repeats a read for which a view did not catch up in time, as on a slow machine. Other errors are returned at once,
 * also a view that has halted.
 */
async function untilReached(send: () => Promise<Response>): Promise<Response> {
  for (;;) {
    const sentAt = process.hrtime.bigint(); // tests stop the clock of `performance`
    const response = await send();
    if (await isBeforeFirstCheckpoint(response)) {
      await nextTurn();
      continue;
    }
    const waitedMs = Number(process.hrtime.bigint() - sentAt) / 1e6;
    if (response.status !== 503 || waitedMs < REACHED_TIMEOUT_MS) return response;
    if (((await response.clone().json()) as { error: number }).error !== 50302) return response;
  }
}

async function isBeforeFirstCheckpoint(response: Response): Promise<boolean> {
  if (response.status !== 503) return false;
  return (await response.clone().text()).includes('No checkpoint is signed yet');
}

/** The note of a checkpoint with at least this number of events. */
export async function checkpointOf(
  size: number,
  auditor: { request: (path: string) => Promise<Response> },
  path = '/checkpoint',
): Promise<string> {
  for (;;) {
    const response = await auditor.request(path);
    const note = await response.text();
    if (response.status === 200 && Number(note.split('\n')[1]) >= size) return note;
    await pause(20);
  }
}
