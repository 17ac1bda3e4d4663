import { join } from 'node:path';
import { describe, expect, onTestFinished, test } from 'vitest';
import { issueToken } from '../../src/tokens/issueToken.ts';
import { loadOrCreateKey } from '../../src/tokens/keyFile.ts';
import { type DoubleOptions, EventStoreDbDouble } from '../support/eventStoreDbDouble.ts';
import { signingKey, startIdentityProvider } from '../support/identityProvider.ts';
import { Fold, twoInstances } from '../support/load.ts';
import { refusedWith } from '../support/refusal.ts';
import { type Plant, startService } from '../support/service.ts';
import { tempDir } from '../support/tempDir.ts';

const AUDIENCE = 'https://plants.example';
/** What a GET waits for its view, in milliseconds. */
const VIEW_PATIENCE = 5_000;
const SLACK = 1_500;

async function startDouble(options: DoubleOptions = {}): Promise<EventStoreDbDouble> {
  const double = await EventStoreDbDouble.start(options);
  onTestFinished(() => double.stop());
  return double;
}

async function overOneServer() {
  const server = await startDouble();
  const [here, there] = await twoInstances(server.url);
  return { server, log: server.log, here, there };
}

/** Each instance is connected to a node of its own. */
async function overTwoNodes() {
  const node = await startDouble();
  const nodeOfThere = await startDouble({ log: node.log });
  const [here, there] = await twoInstances(node.url, nodeOfThere.url);
  return { log: node.log, nodeOfThere, here, there };
}

const upTo = ({ headers }: Response) => ({ 'log-position': headers.get('log-position') ?? '' });

async function plantsIn(answer: Response): Promise<Plant[]> {
  expect(answer.status).toBe(200);
  return answer.json() as Promise<Plant[]>;
}

describe('one token works on both instances', () => {
  const list = (url: string, token: string): Promise<Response> =>
    fetch(`${url}/plants`, { headers: { authorization: `Bearer ${token}` } });

  test('when they share a key file, and a token of another key on none', async () => {
    const { url: EVENTSTOREDB_URL } = await startDouble();
    const KEY_FILE = join(tempDir(), 'key.json');
    const instances = [
      await startService({ EVENTSTOREDB_URL, KEY_FILE }),
      await startService({ EVENTSTOREDB_URL, KEY_FILE }),
    ];
    const grant = { user: 'alice', expires: '1h' };
    const token = await issueToken(loadOrCreateKey(KEY_FILE).privateKey, grant);
    const other = await issueToken(loadOrCreateKey(join(tempDir(), 'key.json')).privateKey, grant);
    for (const { url } of instances) {
      expect(await plantsIn(await list(url, token))).toEqual([]);
      await refusedWith(40102, await list(url, other));
    }
  });

  test('when they trust the same identity provider', async () => {
    const { url: EVENTSTOREDB_URL } = await startDouble();
    const provider = await startIdentityProvider(await signingKey('ES256'));
    const trust = {
      JWKS_URL: `${provider.issuer}/jwks`,
      JWT_ISSUER: provider.issuer,
      JWT_AUDIENCE: AUDIENCE,
    };
    const token = await provider.token('alice', AUDIENCE);
    for (let i = 0; i < 2; i++) {
      const { url } = await startService({ EVENTSTOREDB_URL, ...trust });
      expect(await plantsIn(await list(url, token))).toEqual([]);
    }
  });
});

describe('a list of one instance, up to the Log-Position of the other', () => {
  test('has what was created there', async () => {
    const { here, there } = await overOneServer();
    const ofAlice: Plant[] = [];
    const ofBob: Plant[] = [];
    for (let id = 1; id <= 40; id++) {
      const fern = { name: `Fern ${id}` };
      const oak = { name: `Oak ${id}`, tag: 'outdoor' };
      ofAlice.push(fern);
      ofBob.push(oak);
      const created = await here.as('alice').create(id, fern);
      expect(await plantsIn(await there.as('alice').get('', upTo(created)))).toEqual(ofAlice);
      const other = await there.as('bob').create(id, oak);
      expect(await plantsIn(await here.as('bob').get('', upTo(other)))).toEqual(ofBob);
    }
  });

  test('has what a list of the other has shown', async () => {
    const { here, there } = await overOneServer();
    await here.as('alice').create(1, { name: 'Fern' });
    const seen = await here.as('alice').get();
    expect(await plantsIn(await there.as('alice').get('', upTo(seen)))).toEqual(await plantsIn(seen));
  });

  test('goes on page by page where the other has begun', async () => {
    const { here, there } = await overOneServer();
    for (const [id, name] of ['Fern', 'Ivy', 'Moss'].entries()) await here.as('alice').create(id, { name });
    const page = await here.as('alice').get('?limit=2');
    const next = /^<(.+)>; rel="next"$/.exec(page.headers.get('link') ?? '')?.[1] ?? '';
    const rest = await there.as('alice').request(next, { headers: upTo(page) });
    expect(await plantsIn(rest)).toEqual([{ name: 'Moss' }]);
  });

  test('is refused in time while that instance is behind, and never an older one', async () => {
    const { nodeOfThere, here, there } = await overTwoNodes();
    const first = await here.as('alice').create(1, { name: 'Fern' });
    expect(await plantsIn(await there.as('alice').get('', upTo(first)))).toEqual([{ name: 'Fern' }]);
    nodeOfThere.freeze();
    const second = await here.as('alice').create(2, { name: 'Ivy' });
    const since = performance.now();
    const late = await there.as('alice').get('', upTo(second));
    const ms = performance.now() - since;
    await refusedWith(50302, late);
    expect(late.headers.get('retry-after')).toBe('1');
    expect(ms).toBeGreaterThan(VIEW_PATIENCE - 100);
    expect(ms).toBeLessThan(VIEW_PATIENCE + SLACK);
    expect(await plantsIn(await there.as('alice').get('', upTo(first)))).toEqual([{ name: 'Fern' }]);
    const waiting = there.as('alice').get('', upTo(second));
    nodeOfThere.thaw();
    expect(await plantsIn(await waiting)).toEqual([{ name: 'Fern' }, { name: 'Ivy' }]);
  });

  test('comes late or is refused while both subscriptions are silent, and is never an older one', async () => {
    const { server, here, there } = await overOneServer();
    server.muteSubscriptions();
    const created = await here.as('alice').create(1, { name: 'Fern' });
    for (const { as } of [here, there]) {
      let answer = await as('alice').get('', upTo(created));
      for (let late = 0; answer.status !== 200 && late < 3; late++) {
        await refusedWith(50302, answer);
        answer = await as('alice').get('', upTo(created));
      }
      expect(await plantsIn(answer)).toEqual([{ name: 'Fern' }]);
    }
  });
});

describe('an id that is raced over both instances', () => {
  test('with the same plant is one event, and both are told of it', async () => {
    const { log, here, there } = await overOneServer();
    for (let id = 1; id <= 20; id++) {
      const race = [here, there, there, here].map(({ as }) => as('alice').create(id, { name: `Fern ${id}` }));
      const answers = await Promise.all(race);
      expect(answers.map(({ status }) => status)).toEqual([200, 200, 200, 200]);
      expect(new Set(answers.map((answer) => upTo(answer)['log-position'])).size).toBe(1);
      expect(log.stream(`plant-alice/${id}`)).toHaveLength(1);
    }
  });

  test('with different plants is one of them, and the other is told that the id is taken', async () => {
    const { log, here, there } = await overOneServer();
    for (let id = 1; id <= 20; id++) {
      const answers = await Promise.all([
        here.as('alice').create(id, { name: 'Fern' }),
        there.as('alice').create(id, { name: 'Ivy' }),
      ]);
      const [winner, loser] = answers[0].status === 200 ? answers : answers.toReversed();
      const plant = await plantsIn(winner as Response);
      await refusedWith(40003, loser as Response);
      const [event, ...others] = log.stream(`plant-alice/${id}`);
      expect(JSON.parse(Buffer.from(event?.data ?? '').toString())).toMatchObject(plant);
      expect(others).toEqual([]);
    }
  });

  test('by two users is a plant of each', async () => {
    const { here, there } = await overOneServer();
    const answers = await Promise.all([
      here.as('alice').create(1, { name: 'Fern' }),
      there.as('bob').create(1, { name: 'Oak' }),
    ]);
    for (const { status } of answers) expect(status).toBe(200);
  });
});

test('a list without Log-Position may be older, but is always how it once was, and never goes back', async () => {
  const { log, nodeOfThere, here, there } = await overTwoNodes();
  nodeOfThere.slow(30);
  const fold = new Fold(log);
  const lists: Plant[][] = [];
  let older = 0;
  let acknowledged = 0;
  const writing = (async () => {
    for (let id = 1; id <= 100; id++) {
      expect((await here.as('alice').create(id, { name: `Fern ${id}` })).status).toBe(200);
      acknowledged = id;
    }
  })();
  while (acknowledged < 100) {
    const known = acknowledged;
    const list = await plantsIn(await there.as('alice').get());
    if (list.length < known) older++;
    lists.push(list);
  }
  await writing;
  const whole = fold.plantsOf('alice');
  expect(whole).toHaveLength(100);
  expect(older).toBeGreaterThan(0);
  for (const [i, list] of lists.entries()) {
    expect(list).toEqual(whole.slice(0, list.length));
    expect(list.length).toBeGreaterThanOrEqual(lists[i - 1]?.length ?? 0);
  }
});
