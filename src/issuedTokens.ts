import { randomUUID } from 'node:crypto';
import { mkdirSync } from 'node:fs';
import { readdir, readFile, unlink } from 'node:fs/promises';
import { join } from 'node:path';
import { setInterval } from 'node:timers/promises';
import { replaceFile } from '@event-sourced/transparency-log/files';
import type { FastifyBaseLogger } from 'fastify';
import { decodeJwt } from 'jose';

// A command records the token that it issues, and the service of the same data directory logs it, beside its other log
// lines. The record has a user's name, so it is removed once it is logged.

const INTERVAL_MS = 1_000;

const directory = (dataDir: string): string => join(dataDir, 'issued');

/** Records a token for the service, or its next start, to log. @throws Error if that fails: then do not print the token */
export async function recordIssued(token: string, dataDir: string): Promise<void> {
  mkdirSync(directory(dataDir), { recursive: true, mode: 0o700 });
  await replaceFile(join(directory(dataDir), `${randomUUID()}.json`), JSON.stringify(decodeJwt(token)));
}

/** Logs tokens that commands have issued, a line for each, until the end of the service or the first failure. */
export async function logIssued(
  dataDir: string,
  { logger, signal }: { logger: FastifyBaseLogger; signal: AbortSignal },
): Promise<void> {
  try {
    for await (const _ of setInterval(INTERVAL_MS, undefined, { ref: false, signal }))
      for (const file of await issuedFiles(directory(dataDir))) {
        const { sub, scope, iat, exp } = JSON.parse(await readFile(file, 'utf8'));
        logger.info({ user: sub, scope, issuedAt: timeOf(iat), expiresAt: timeOf(exp) }, 'token issued');
        await unlink(file);
      }
  } catch (err) {
    if (!signal.aborted) logger.error({ err }, 'issued tokens cannot be logged until a restart');
  }
}

async function issuedFiles(dir: string): Promise<string[]> {
  const names = await readdir(dir).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return [];
    throw error;
  });
  return names.filter((name) => name.endsWith('.json')).map((name) => join(dir, name));
}

const timeOf = (seconds: number): string => new Date(seconds * 1_000).toISOString();
