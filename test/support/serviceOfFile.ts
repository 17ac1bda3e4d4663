import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import pino from 'pino';
import { afterAll } from 'vitest';
import { readConfig } from '../../src/config.ts';
import { startService } from '../../src/service.ts';
import { issueToken } from '../../src/tokens/issueToken.ts';
import { loadOrCreateKey } from '../../src/tokens/keyFile.ts';
import { client } from './service.ts';

export type StoredEvent = { position: number; stream: string; revision: number; type: string } & {
  data: { id: string; user: string; name: string; tag?: string };
  metadata: Record<string, unknown>;
};

/** One service for all tests of a file, on a free port, with its own data directory. */
export async function serviceOfFile(env: Record<string, string> = {}) {
  const dir = mkdtempSync(join(tmpdir(), 'plant-store-'));
  const config = readConfig({ PORT: '0', DATA_DIR: dir, ...env });
  const { url, close } = await startService(config, {
    logger: pino({ level: 'silent' }),
    progressOf: () => () => {},
    onFatal: (error) => {
      throw error;
    },
  });
  afterAll(async () => {
    await close();
    rmSync(dir, { recursive: true, force: true });
  });
  const { privateKey } = loadOrCreateKey(join(dir, 'key.json'));
  return {
    url,
    dir,
    close,
    as: client(url, dir),
    /** An Authorization header. */
    bearer: async (user: string, scope?: string) =>
      `Bearer ${await issueToken(privateKey, { subject: user, lifetime: '1h', scope })}`,
    /** The events of the log, read from its file. */
    events: (user?: string) =>
      eventsIn(join(dir, 'log.db')).filter(({ data }) => [data.user, undefined].includes(user)),
  };
}

function eventsIn(file: string): StoredEvent[] {
  const db = new DatabaseSync(file, { readOnly: true });
  try {
    const rows = db.prepare(
      'SELECT position, stream, revision, type, data, metadata FROM events ORDER BY position',
    );
    return rows.all().map((row) => {
      const { data, metadata, ...rest } = row as Record<string, string>;
      return { ...rest, data: JSON.parse(data ?? ''), metadata: JSON.parse(metadata ?? '') } as StoredEvent;
    });
  } finally {
    db.close();
  }
}
