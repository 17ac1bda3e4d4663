import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { serviceOver } from '../support/eventStoreDbService.ts';
import { untilAvailable } from '../support/load.ts';
import { LOCALHOST } from '../support/localhostCertificate.ts';
import { slowClock } from '../support/slowClock.ts';
import { startFakeServer } from '../support/stores.ts';
import { tempDir } from '../support/tempDir.ts';

/** The time until the accounts of a new server exist, in milliseconds. */
const ACCOUNTS = 5_000;
const PASSWORD = 's3cret/changeit';

/** A server with TLS and one user. */
async function secured() {
  const cert = join(tempDir(), 'cert.pem');
  writeFileSync(cert, LOCALHOST.cert);
  const server = await startFakeServer({ tls: LOCALHOST, users: { admin: PASSWORD } });
  const at = `admin:${encodeURIComponent(PASSWORD)}@localhost:${server.port}`;
  return { server, cert, at };
}

/** The message with which a start with this connection string fails. */
async function refusal(url: string): Promise<string> {
  const clock = slowClock();
  const starting = serviceOver(url);
  clock.pass(ACCOUNTS);
  const outcome = await starting.catch((error: unknown) => error);
  expect(outcome).toBeInstanceOf(Error);
  const { message } = outcome as Error;
  for (const password of [PASSWORD, encodeURIComponent(PASSWORD), 'wrong-password'])
    expect(message).not.toContain(password);
  return message;
}

test('a server with TLS and accounts is used with the right user, password and certificate', async () => {
  const { server, cert, at } = await secured();
  const service = await serviceOver(`esdb://${at}?tls=true&tlsCAFile=${cert}`);
  expect((await service.alice.create(1, { name: 'Fern' })).status).toBe(200);
  expect(await (await untilAvailable(service.alice.get)).json()).toEqual([{ name: 'Fern' }]);
  expect(server.log.stream('plant-alice/1')).toHaveLength(1);
});

test('also with the scheme kurrentdb, and without tls, which is true by default', async () => {
  const { cert, at } = await secured();
  const service = await serviceOver(`kurrentdb://${at}?tlsCAFile=${cert}`);
  expect((await service.alice.create(1, { name: 'Fern' })).status).toBe(200);
});

test('a start with a wrong password fails', async () => {
  const { cert, at } = await secured();
  const wrong = at.replace(/:.*@/, ':wrong-password@');
  expect(await refusal(`esdb://${wrong}?tls=true&tlsCAFile=${cert}`)).toMatch(
    /^cannot use EVENTSTOREDB_URL: .*\bpassword\b/,
  );
});

test('a start without a user fails', async () => {
  const { server, cert } = await secured();
  expect(await refusal(`esdb://localhost:${server.port}?tls=true&tlsCAFile=${cert}`)).toMatch(
    /^cannot use EVENTSTOREDB_URL: .*\buser\b/,
  );
});

test('a start with an untrusted certificate fails', async () => {
  const { at } = await secured();
  expect(await refusal(`esdb://${at}?tls=true`)).toMatch(/^cannot use EVENTSTOREDB_URL: .*\btlsCAFile\b/);
});

test('a start with a missing CA certificate fails', async () => {
  const { at } = await secured();
  expect(await refusal(`esdb://${at}?tls=true&tlsCAFile=/nowhere/ca.pem`)).toMatch(
    /EVENTSTOREDB_URL .*\btlsCAFile must name a readable file/,
  );
});

test('a start with tls=true for a server without TLS fails', async () => {
  const { port } = await startFakeServer();
  expect(await refusal(`esdb://admin:${encodeURIComponent(PASSWORD)}@localhost:${port}?tls=true`)).toMatch(
    /^cannot use EVENTSTOREDB_URL: .*\btls\b/,
  );
});

test('with tls=false for a server with TLS, the service waits, and its logs mention tls', async () => {
  const { at } = await secured();
  const service = await serviceOver(`esdb://${at}?tls=false`);
  const unavailable = () => service.log().find(({ msg }) => msg.startsWith('event store unavailable'));
  await expect.poll(unavailable).toMatchObject({ reason: expect.stringMatching(/\btls\b/) });
  expect(await (await service.readiness()).json()).toMatchObject({
    message: expect.stringMatching(/\btls\b/),
  });
  for (const password of [PASSWORD, encodeURIComponent(PASSWORD)])
    expect(JSON.stringify(service.log())).not.toContain(password);
});
