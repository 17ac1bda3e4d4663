import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'vitest';
import { LOCALHOST } from './localhostCertificate.ts';
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
