import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'vitest';
import { LOCALHOST } from './localhostCertificate.ts';
import { run } from './process.ts';
import { startFakeServer } from './stores.ts';
import { tempDir } from './tempDir.ts';

export const PASSWORD = 's3cret/changeit';
/** Settings for the most verbose output. */
export const MOST_VERBOSE = {
  DEBUG: 'esdb:*',
  NODE_DEBUG: 'http2',
  GRPC_TRACE: 'all',
  GRPC_VERBOSITY: 'DEBUG',
  LOG_LEVEL: 'trace',
};

/** A fake server with TLS and an account. */
export async function secured() {
  const cert = join(tempDir(), 'cert.pem');
  writeFileSync(cert, LOCALHOST.cert);
  const server = await startFakeServer({ tls: LOCALHOST, users: { admin: PASSWORD } });
  const at = (password: string) => `admin:${encodeURIComponent(password)}@localhost:${server.port}`;
  return { server, cert, at };
}

export function expectNoPassword(output: string, password = PASSWORD): void {
  expect(output).not.toBe('');
  const basic = Buffer.from(`admin:${password}`).toString('base64');
  for (const form of [password, encodeURIComponent(password), basic]) expect(output).not.toContain(form);
}

/** Expects that a start with these options fails; a final `=` is completed with the certificate. */
export async function expectNoStart(password: string, options: string, message: RegExp): Promise<void> {
  const { cert, at } = await secured();
  const EVENTSTOREDB_URL = `esdb://${at(password)}?${options.replace(/=$/, `=${cert}`)}`;
  const ended = await run({ env: { EVENTSTOREDB_URL, DATA_DIR: tempDir(), ...MOST_VERBOSE } });
  expect(ended).toMatchObject({ code: 1, stdout: expect.not.stringContaining('listening') });
  expect(ended.stderr).toMatch(/EVENTSTOREDB_URL/);
  expect(ended.stderr).toMatch(message);
  expectNoPassword(ended.stdout + ended.stderr, password);
}
