import { expect, test } from 'vitest';
import { created, listed, serviceOver } from '../support/eventStoreDbService.ts';
import { expectNoPassword, PASSWORD, secured } from '../support/securedFakeServer.ts';
import { slowClock } from '../support/slowClock.ts';
import { startFakeServer } from '../support/stores.ts';

/** The time until the accounts of a new server exist, in milliseconds. */
const ACCOUNTS_TIMEOUT_MS = 5_000;

type Secured = Awaited<ReturnType<typeof secured>>;

test('a server with TLS and accounts is used with the right user, password and certificate', async () => {
  const { server, cert, at } = await secured();
  const service = await serviceOver(`esdb://${at(PASSWORD)}?tls=true&tlsCAFile=${cert}`);
  await created(service.alice, 1, 'Fern');
  expect(await listed(service.alice)).toEqual([{ name: 'Fern' }]);
  expect(server.log.stream('plant-alice/1')).toHaveLength(1);
});

test('also with the scheme kurrentdb, and without tls, which is true by default', async () => {
  const { cert, at } = await secured();
  const service = await serviceOver(`kurrentdb://${at(PASSWORD)}?tlsCAFile=${cert}`);
  await created(service.alice, 1, 'Fern');
});

test.each<[string, (to: Secured) => string | Promise<string>, RegExp]>([
  ['a wrong password', ({ at, cert }) => `${at('wrong-password')}?tlsCAFile=${cert}`, /\bpassword\b/],
  ['no user', ({ server, cert }) => `localhost:${server.port}?tlsCAFile=${cert}`, /\buser\b/],
  ['an untrusted certificate', ({ at }) => at(PASSWORD), /\btlsCAFile\b/],
  [
    'a missing CA certificate',
    ({ at }) => `${at(PASSWORD)}?tlsCAFile=/nowhere/ca.pem`,
    /\btlsCAFile must name a readable file/,
  ],
  [
    'a server without TLS',
    async ({ at, server }) => at(PASSWORD).replace(`${server.port}`, `${(await startFakeServer()).port}`),
    /\btls\b/,
  ],
])('a start with tls=true and %s fails', async (_, target, reason) => {
  const url = new URL(`esdb://${await target(await secured())}`);
  url.searchParams.set('tls', 'true');
  const clock = slowClock();
  const starting = serviceOver(url.href);
  clock.pass(ACCOUNTS_TIMEOUT_MS);
  const error = await starting.catch((error: unknown) => error);
  expect(error).toBeInstanceOf(Error);
  const { message } = error as Error;
  expect(message).toMatch(
    RegExp(`^(cannot use|invalid configuration:\n ) EVENTSTOREDB_URL:? .*${reason.source}`),
  );
  for (const password of [PASSWORD, 'wrong-password']) expectNoPassword(message, password);
});

test('with tls=false for a server with TLS, the service waits, and its logs mention tls', async () => {
  const { at } = await secured();
  const service = await serviceOver(`esdb://${at(PASSWORD)}?tls=false`);
  const unavailable = () => service.log().find(({ msg }) => msg.startsWith('event store unavailable'));
  await expect.poll(unavailable).toMatchObject({ reason: expect.stringMatching(/\btls\b/) });
  expect(await (await service.readiness()).json()).toMatchObject({
    message: expect.stringMatching(/\btls\b/),
  });
  expectNoPassword(JSON.stringify(service.log()));
});
