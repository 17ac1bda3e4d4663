import { join } from 'node:path';
import { afterAll, describe, expect, test } from 'vitest';
import type { FakeEvent } from '../../packages/event-log/src/testing/fakeEventStoreDb/server.ts';
import { issueToken } from '../../packages/http/src/tokens/issueToken.ts';
import { loadOrCreateKey } from '../../packages/transparency-log/src/files/keyFile.ts';
import { ready, untilAvailable } from '../support/instances.ts';
import { plantOf, writeTo } from '../support/logs.ts';
import { refusedWith } from '../support/refusal.ts';
import { type Plant, serviceOfFile } from '../support/service.ts';
import { startFakeServer } from '../support/stores.ts';
import { tempDir } from '../support/tempDir.ts';

// Two instances for the tests of this file, over one log; each is connected to its own node.
const keys = tempDir(afterAll);
const node = await startFakeServer({}, afterAll);
const otherNode = await startFakeServer({ log: node.log }, afterAll);
const here = await startInstance(node.url);
const there = await startInstance(otherNode.url);
const { log } = node;

async function startInstance(EVENTSTOREDB_URL: string) {
  const service = await serviceOfFile({ EVENTSTOREDB_URL, KEY_FILE: join(keys, 'key.json') });
  await ready(service);
  return service;
}

let userCount = 0;

/** Clients of a new user, at both instances. */
function newUser() {
  const alice = `alice ${++userCount}`;
  return { alice, aliceHere: here.as(alice), aliceThere: there.as(alice) };
}

const upTo = ({ headers }: Response) => ({ 'log-position': headers.get('log-position') ?? '' });

async function plantsIn(response: Response): Promise<Plant[]> {
  expect(response.status).toBe(200);
  return response.json() as Promise<Plant[]>;
}

test('one token works on both instances if they share a key file, and a token signed with another key on none', async () => {
  const grant = { subject: 'alice', lifetime: '1h' };
  const token = await issueToken(loadOrCreateKey(join(keys, 'key.json')).privateKey, grant);
  const other = await issueToken(loadOrCreateKey(join(tempDir(), 'key.json')).privateKey, grant);
  for (const { url } of [here, there]) {
    const list = (bearer: string) =>
      fetch(`${url}/plants`, { headers: { authorization: `Bearer ${bearer}` } });
    expect(await plantsIn(await list(token))).toEqual([]);
    await refusedWith(40102, await list(other));
  }
});

describe('a list of one instance with the Log-Position of the other', () => {
  test('has the first plant of the log, even if the instance has received no event yet', async () => {
    const server = await startFakeServer();
    const { as } = await startInstance(server.url);
    server.holdAfter(0);
    const { id } = server.write('plantstore', { type: 'LogBegun' });
    const { position } = writeTo(server, plantOf('alice', 1, 'Fern'))[0] as FakeEvent;
    expect(await plantsIn(await as('alice').get())).toEqual([]);
    const pending = as('alice').get('', { 'log-position': `e${id.slice(-12)}.${position}` });
    server.holdAfter(Number.POSITIVE_INFINITY);
    writeTo(server, plantOf('bob', 1, 'Oak'));
    expect(await plantsIn(await pending)).toEqual([{ name: 'Fern' }]);
  });

  test('continues a pagination started there', async () => {
    const { aliceHere, aliceThere } = newUser();
    for (const [id, name] of ['Fern', 'Ivy', 'Moss'].entries()) await aliceHere.create(id, { name });
    const page = await untilAvailable(() => aliceHere.get('?limit=2'));
    const next = /^<(.+)>; rel="next"$/.exec(page.headers.get('link') ?? '')?.[1] ?? '';
    const rest = await untilAvailable(() => aliceThere.request(next, { headers: upTo(page) }));
    expect(await plantsIn(rest)).toEqual([{ name: 'Moss' }]);
  });
});

describe('an ID created concurrently on both instances', () => {
  test('with the same plant is one event, and all requests succeed', async () => {
    const { alice, aliceHere, aliceThere } = newUser();
    for (let id = 1; id <= 5; id++) {
      const clients = [aliceHere, aliceThere, aliceThere, aliceHere];
      const responses = await Promise.all(clients.map((as) => as.create(id, { name: `Fern ${id}` })));
      expect(responses.map(({ status }) => status)).toEqual([200, 200, 200, 200]);
      expect(new Set(responses.map((response) => upTo(response)['log-position'])).size).toBe(1);
      expect(log.stream(`plant-${alice}/${id}`)).toHaveLength(1);
    }
  });

  test('with different plants is one of them, and the other request is 40003', async () => {
    const { alice, aliceHere, aliceThere } = newUser();
    for (let id = 1; id <= 5; id++) {
      const responses = await Promise.all([
        aliceHere.create(id, { name: 'Fern' }),
        aliceThere.create(id, { name: 'Ivy' }),
      ]);
      const [winner, loser] = responses[0].status === 200 ? responses : responses.toReversed();
      const plant = await plantsIn(winner as Response);
      await refusedWith(40003, loser as Response);
      const [event, ...others] = log.stream(`plant-${alice}/${id}`);
      expect(JSON.parse(Buffer.from(event?.data ?? '').toString())).toMatchObject(plant);
      expect(others).toEqual([]);
    }
  });
});
