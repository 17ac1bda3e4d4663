import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import pino from 'pino';
import { afterAll } from 'vitest';
import { client, startIn, tokenOf } from './service.ts';
import { tempDirOfFile } from './tempDir.ts';

type StoredEvent = { position: number; stream: string; revision: number; type: string } & {
  data: { id: string; user: string; name: string; tag?: string };
  metadata: Record<string, unknown>;
};

/** One service for all tests of a file, on a free port, with its own data directory. */
export async function serviceOfFile(env: Record<string, string> = {}) {
  const dir = tempDirOfFile();
  const { url, close } = await startIn(dir, env, pino({ level: 'silent' }));
  afterAll(close);
  return {
    url,
    dir,
    close,
    as: client(url, dir),
    /** An Authorization header. */
    bearer: async (user: string, scope?: string) => `Bearer ${await tokenOf(dir, user, scope)}`,
    /** The events of the log, read from its file. */
    events: (user?: string) =>
      eventsIn(join(dir, 'log.db')).filter(({ data }) => [data.user, undefined].includes(user)),
  };
}

function eventsIn(file: string): StoredEvent[] {
  using db = new DatabaseSync(file, { readOnly: true });
  const columns = 'position, stream, revision, type, data, metadata';
  const rows = db.prepare(`SELECT ${columns} FROM events ORDER BY position`).all();
  return rows.map(({ data, metadata, ...rest }) => {
    return { ...rest, data: JSON.parse(`${data}`), metadata: JSON.parse(`${metadata}`) } as StoredEvent;
  });
}
