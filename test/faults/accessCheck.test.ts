import { slowClock } from '@event-sourced/testing/slowClock';
import { startFakeServer } from '@event-sourced/testing/stores';
import { expect, test, vi } from 'vitest';
import { ACCOUNTS_TIMEOUT_MS } from '../../packages/event-store-db/src/client.ts';
import { Connection } from '../../packages/event-store-db/src/connection.ts';
import { serviceOver } from '../support/eventStoreDbService.ts';
import { expectNoPassword, PASSWORD, secured } from '../support/securedFakeServer.ts';

type Secured = Awaited<ReturnType<typeof secured>>;

test.each<[string, (to: Secured) => string | Promise<string>, RegExp]>([
  ['a wrong password', ({ at, cert }) => `${at('wrong-password')}?tlsCAFile=${cert}`, /\bpassword\b/],
  ['no user', ({ server, cert }) => `localhost:${server.port}?tlsCAFile=${cert}`, /\buser\b/],
  ['an untrusted certificate', ({ at }) => at(PASSWORD), /\btlsCAFile\b/],
  [
    'a missing CA certificate',
    ({ at }) => `${at(PASSWORD)}?tlsCAFile=/nowhere/ca.pem`,
    /\bload certificate file\b/,
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
  using calls = vi.spyOn(Connection.prototype, 'call');
  let isOver = false;
  const starting = serviceOver(url.href).catch((error: unknown) => error);
  void starting.finally(() => {
    isOver = true;
  });
  await expect.poll(() => isOver || calls.mock.settledResults[0]?.type === 'rejected').toBe(true);
  clock.pass(ACCOUNTS_TIMEOUT_MS);
  const error = await starting;
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
