import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'vitest';
import { startDouble } from '../copy/logs.ts';
import { LOCALHOST } from './localhostCertificate.ts';
import { run } from './process.ts';
import { tempDir } from './tempDir.ts';

export const PASSWORD = 's3cret/changeit';
/** Settings with which everything is printed that can be. */
export const EVERYTHING = {
  DEBUG: 'esdb:*',
  NODE_DEBUG: 'http2',
  GRPC_TRACE: 'all',
  GRPC_VERBOSITY: 'DEBUG',
  LOG_LEVEL: 'trace',
};

/** A server with TLS and an account. */
export async function secured() {
  const cert = join(tempDir(), 'cert.pem');
  writeFileSync(cert, LOCALHOST.cert);
  const server = await startDouble({ tls: LOCALHOST, users: { admin: PASSWORD } });
  const at = (password: string) => `admin:${encodeURIComponent(password)}@localhost:${server.port}`;
  return { server, cert, at };
}

export function expectNoPassword(output: string, password = PASSWORD): void {
  expect(output).not.toBe('');
  for (const form of [
    password,
    encodeURIComponent(password),
    Buffer.from(`admin:${password}`).toString('base64'),
  ])
    expect(output).not.toContain(form);
}

/** A connection string with these options, which may end in the name of the certificate, ends the start with a message. */
export async function expectNoStart(password: string, options: string, fault: RegExp): Promise<void> {
  const { cert, at } = await secured();
  const EVENTSTOREDB_URL = `esdb://${at(password)}?${options.replace(/=$/, `=${cert}`)}`;
  const ended = await run({ env: { EVENTSTOREDB_URL, DATA_DIR: tempDir(), ...EVERYTHING } });
  expect(ended).toMatchObject({ code: 1, stdout: expect.not.stringContaining('listening') });
  expect(ended.stderr).toMatch(/EVENTSTOREDB_URL/);
  expect(ended.stderr).toMatch(fault);
  expectNoPassword(ended.stdout + ended.stderr, password);
}
