import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { startDouble } from '../copy/logs.ts';
import { serviceOver } from '../support/eventStoreDbService.ts';
import { answered } from '../support/load.ts';
import { LOCALHOST } from '../support/localhostCertificate.ts';
import { slowClock } from '../support/slowClock.ts';
import { tempDir } from '../support/tempDir.ts';

/** By then the accounts of a server that has just started are there, in milliseconds. */
const ACCOUNTS = 5_000;
const PASSWORD = 's3cret/changeit';

/** A server with TLS and one user. */
async function secured() {
  const cert = join(tempDir(), 'cert.pem');
  writeFileSync(cert, LOCALHOST.cert);
  const server = await startDouble({ tls: LOCALHOST, users: { admin: PASSWORD } });
  const at = `admin:${encodeURIComponent(PASSWORD)}@localhost:${server.port}`;
  return { server, cert, at };
}

/** Why the service does not start with this connection string. */
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

test('a server with TLS and accounts is followed where user, password and certificate are right', async () => {
  const { server, cert, at } = await secured();
  const service = await serviceOver(`esdb://${at}?tls=true&tlsCAFile=${cert}`);
  expect((await service.alice.create(1, { name: 'Fern' })).status).toBe(200);
  expect(await (await answered(service.alice.get)).json()).toEqual([{ name: 'Fern' }]);
  expect(server.log.stream('plant-alice/1')).toHaveLength(1);
});

test('and by another name of the scheme, and without tls, which is on unless it is off', async () => {
  const { cert, at } = await secured();
  const service = await serviceOver(`kurrentdb://${at}?tlsCAFile=${cert}`);
  expect((await service.alice.create(1, { name: 'Fern' })).status).toBe(200);
});

test('a wrong password is refused', async () => {
  const { cert, at } = await secured();
  const wrong = at.replace(/:.*@/, ':wrong-password@');
  expect(await refusal(`esdb://${wrong}?tls=true&tlsCAFile=${cert}`)).toMatch(
    /^EVENTSTOREDB_URL cannot be used: .*\bpassword\b/,
  );
});

test('no user is refused', async () => {
  const { server, cert } = await secured();
  expect(await refusal(`esdb://localhost:${server.port}?tls=true&tlsCAFile=${cert}`)).toMatch(
    /^EVENTSTOREDB_URL cannot be used: .*\buser\b/,
  );
});

test('a certificate that is not trusted is refused', async () => {
  const { at } = await secured();
  expect(await refusal(`esdb://${at}?tls=true`)).toMatch(/^EVENTSTOREDB_URL cannot be used: .*\btlsCAFile\b/);
});

test('a missing certificate of an authority is refused', async () => {
  const { at } = await secured();
  expect(await refusal(`esdb://${at}?tls=true&tlsCAFile=/nowhere/ca.pem`)).toMatch(
    /EVENTSTOREDB_URL .*\btlsCAFile must name a file that is there/,
  );
});

test('tls=true for a server without TLS is refused', async () => {
  const { port } = await startDouble();
  expect(await refusal(`esdb://admin:${encodeURIComponent(PASSWORD)}@localhost:${port}?tls=true`)).toMatch(
    /^EVENTSTOREDB_URL cannot be used: .*\btls\b/,
  );
});

test('with tls=false for a server with TLS the service waits, and says what to look at', async () => {
  const { at } = await secured();
  const service = await serviceOver(`esdb://${at}?tls=false`);
  const unavailable = () => service.log().find(({ msg }) => msg.startsWith('the log is away'));
  await expect.poll(unavailable).toMatchObject({ reason: expect.stringMatching(/\btls\b/) });
  expect(await (await service.readiness()).json()).toMatchObject({
    message: expect.stringMatching(/\btls\b/),
  });
  for (const password of [PASSWORD, encodeURIComponent(PASSWORD)])
    expect(JSON.stringify(service.log())).not.toContain(password);
});
