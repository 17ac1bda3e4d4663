import { once } from 'node:events';
import { type IncomingMessage, request } from 'node:http';
import { json } from 'node:stream/consumers';
import { expect } from 'vitest';
import { tokenOf } from './service.ts';
import { onTerminal } from './terminal.ts';

export const NPM_START = ['npm', 'start'];
/** On its own terminal. */
export const ON_A_TERMINAL = onTerminal(NPM_START);
/** The log line of a server that closed connections with requests in flight. */
export const CUT = /"connections":(\d+),"msg":"closed connections of requests in flight"/;

/** What tests of processes leave out, and the service has by default. */
export const DEFAULTS = { MERKLE_TREE: 'on', DOCS: 'on' };

/** A POST of alice whose head and half of whose body the server has received; no response if its connection is cut. */
export async function slowUpload({ url, dir }: { url: string; dir: string }, name: string) {
  const body = JSON.stringify({ id: 7, name });
  const headers = {
    authorization: `Bearer ${await tokenOf(dir, 'alice')}`,
    'content-type': 'application/json',
    'content-length': body.length,
    expect: '100-continue',
  };
  const upload = request(`${url}/plants`, { method: 'POST', headers, agent: false });
  upload.on('error', () => {}); // a cut
  const response: Promise<IncomingMessage | undefined> = once(upload, 'response').then(
    ([message]) => message,
    () => undefined,
  );
  upload.flushHeaders();
  await once(upload, 'continue');
  upload.write(body.slice(0, 10));
  return { finish: () => void upload.end(body.slice(10)), response };
}

export const expectRefused = (url: string) =>
  expect(fetch(`${url}/health/live`)).rejects.toMatchObject({ cause: { code: 'ECONNREFUSED' } });

/** Expects the response to a finished upload, which closes its connection. */
export async function expectCreated(response: IncomingMessage | undefined, name: string): Promise<void> {
  expect(response).toMatchObject({ statusCode: 200, headers: { connection: 'close' } });
  expect(response && (await json(response))).toEqual({ name });
}
