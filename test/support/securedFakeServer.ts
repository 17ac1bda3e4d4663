import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { startFakeServer } from '@event-sourced/testing/stores';
import { tempDir } from '@event-sourced/testing/tempDir';
import { expect } from 'vitest';

export const PASSWORD = 's3cret/changeit';
/** Settings for the most verbose output. */
export const MOST_VERBOSE = {
  DEBUG: 'esdb:*',
  NODE_DEBUG: 'http2',
  GRPC_TRACE: 'all',
  GRPC_VERBOSITY: 'DEBUG',
  LOG_LEVEL: 'trace',
};

/** A self-signed certificate for localhost and its key, valid from 2000 to 2199. */
const LOCALHOST = {
  key: `-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgyjT5idGW+rmtR3tK
GVCO3zj4a9QCTWxtzLmVlzzDsMihRANCAATwejbhYLthGY88FVBnDomBvWqBzCqN
84BDiJSdzM77UBMbt+5F7MLpjpGaoMGsIC5/9ZZjkHVXz2LXhvk1EQQh
-----END PRIVATE KEY-----
`,
  cert: `-----BEGIN CERTIFICATE-----
MIIBYTCCAQegAwIBAgIBATAKBggqhkjOPQQDAjAUMRIwEAYDVQQDDAlsb2NhbGhv
c3QwIBcNMDAwMTAxMDAwMDAwWhgPMjE5OTEyMzEwMDAwMDBaMBQxEjAQBgNVBAMM
CWxvY2FsaG9zdDBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABPB6NuFgu2EZjzwV
UGcOiYG9aoHMKo3zgEOIlJ3MzvtQExu37kXswumOkZqgwawgLn/1lmOQdVfPYteG
+TURBCGjSDBGMBQGA1UdEQQNMAuCCWxvY2FsaG9zdDAPBgNVHRMBAf8EBTADAQH/
MB0GA1UdDgQWBBQvrTUxBqBFnhr8U/PTpJkRd8v45jAKBggqhkjOPQQDAgNIADBF
AiEA2F7LFzFKKp8o5LJfVmyvWfY9NcqTqtOMBp3CmJgQz44CIEARtus51jDEhGIA
Qit42k8r8+KBgliCeRgIshr1cP/u
-----END CERTIFICATE-----
`,
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
