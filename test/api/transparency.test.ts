import { hash, randomUUID } from 'node:crypto';
import { alterLog, appendTo, logWith } from '@event-sourced/testing/logs';
import { fixedParts, refusedWith } from '@event-sourced/testing/refusal';
import { startFakeServer } from '@event-sourced/testing/stores';
import { tempDir } from '@event-sourced/testing/tempDir';
import { afterAll, describe, expect, test } from 'vitest';
import { auditMetrics } from '../../packages/audit/src/auditMetrics.ts';
import { type EventStore, StoreUnavailable } from '../../packages/event-log/src/eventStore.ts';
import { ViewBehind } from '../../packages/event-log/src/views/waiting.ts';
import { Metrics } from '../../packages/http/src/metrics/metrics.ts';
import { formatVerifierKey } from '../../packages/tlog/src/notes/signedNote.ts';
import { AUDITORS, appOver, recorded } from '../support/appOver.ts';
import { publish } from '../support/checkpoints.ts';
import { untilAvailable } from '../support/instances.ts';
import { checkpointOf, client, serviceOfFile, startServiceWithTree } from '../support/service.ts';
import { entriesIn, rootOf, tilesOf, verifyCheckpoint, verifyTlogProof } from '../support/tlogVerifier.ts';

/** More than a full tile. */
const EVENTS = 300;
/** The index of an event of the embedded log that is larger than an entry. */
const LARGE = 100;

async function overEmbedded() {
  const dir = tempDir(afterAll);
  const user = "'u' || (id % 7)";
  logWith({ dir, events: LARGE, user });
  const data = { name: 'x'.repeat(70_000) };
  appendTo(dir, { stream: 'plant-alice/1', id: randomUUID(), type: 'Written', data });
  logWith({ dir, events: EVENTS - LARGE - 1, after: LARGE, user });
  const { url } = await serviceOfFile({
    MERKLE_TREE: 'on',
    DATA_DIR: dir,
    EVENT_SOURCE: 'https://plants.example/log',
  });
  return { url, dir, origin: 'plants.example/log' };
}

/** Its positions have gaps, and other services write to it. */
async function overEventStoreDb() {
  const fake = await startFakeServer({}, afterAll);
  fake.write('garden-alice/1', { type: 'PlantCreated' });
  for (let i = 0; i < EVENTS / 2; i++) fake.write(`plant-u${i % 7}/${i}`, { data: { name: `plant ${i}` } });
  for (let i = 0; i < 10; i++) fake.write('garden-alice/1', { type: 'PlantPruned' });
  fake.write('plant-others/x', { contentType: 'application/octet-stream', data: Uint8Array.of(1, 255) });
  fake.write('plant-others/x', { data: '{"litres":1e999, "a": 1.0}' });
  fake.write('plant-others/x', { data: 'no JSON', metadata: 'none' });
  for (let i = 0; i < EVENTS / 2; i++) {
    fake.write(`plant-others/${i}`, { data: `{"spaced": ${i}}` });
    if (i % 50 === 0) fake.write('garden-alice/1', { type: 'PlantPruned' });
  }
  for (let i = 0; i < 10; i++) fake.write('garden-alice/1', { type: 'PlantPruned' });
  const { url, dir } = await serviceOfFile({
    MERKLE_TREE: 'on',
    EVENTSTOREDB_URL: fake.url,
    LOG_ORIGIN: 'log.example',
    CORS_ORIGINS: 'https://app.example',
  });
  return { url, dir, origin: 'log.example', fake };
}

const embedded = await overEmbedded();
const eventStoreDb = await overEventStoreDb();
const BOTH = [
  ['the embedded log', embedded],
  ['EventStoreDB', eventStoreDb],
] as const;

function clients({ url, dir }: { url: string; dir: string }) {
  const as = client(url, dir);
  const carol = as('carol', 'audit');
  const audit = (path: string, init?: RequestInit) => untilAvailable(() => carol.request(path, init));
  const bytes = async (path: string): Promise<Buffer> => {
    const response = await audit(path);
    expect(response.status, path).toBe(200);
    return Buffer.from(await response.arrayBuffer());
  };
  const text = async (path: string) => (await bytes(path)).toString();
  const checkpoint = async () => verifyCheckpoint(await text('/checkpoint'), await text('/log-key'));
  return { as, audit, bytes, text, checkpoint };
}

describe.each(BOTH)('over %s', (_, server) => {
  const { as, audit, bytes, text } = clients(server);

  test('a verifier recomputes the root that the log has signed, and every tile, from the entries alone', async () => {
    await checkpointOf(EVENTS, { request: audit });
    const response = await audit('/checkpoint');
    expect(response.headers.get('content-type')).toBe('text/plain; charset=utf-8');
    expect(response.headers.get('cache-control')).toBe('no-store');
    const { origin, size, root } = verifyCheckpoint(await response.text(), await text('/log-key'));
    expect(origin).toBe(server.origin);
    expect(size).toBeGreaterThanOrEqual(EVENTS);
    const tiles = tilesOf(size);
    const entries: Buffer[] = [];
    for (const { path, hashes } of tiles.filter(({ level }) => level === 0)) {
      const bundle = entriesIn(await bytes(`/tile/entries/${path.slice('0/'.length)}`));
      expect(bundle).toHaveLength(hashes.length);
      entries.push(...bundle);
    }
    expect(rootOf(entries)).toBe(root);
    expect(tiles.map(({ level }) => level)).toEqual([0, 0, 1]);
    for (const { path, hashes } of tiles) {
      const expected = hashes.map(([start, end]) => rootOf(entries.slice(start, end)));
      expect((await bytes(`/tile/${path}`)).toString('hex'), path).toBe(expected.join(''));
    }
  });

  test('the owner of a new plant gets a receipt for it with the next checkpoint', async () => {
    const alice = as('alice of receipts');
    await alice.create(42, { name: 'Fern', tag: 'indoor' });
    const response = await alice.request('/proofs/plants?id=42');
    expect(response.headers.get('content-type')).toBe('text/plain; charset=utf-8');
    expect(response.headers.get('cache-control')).toBe('no-store');
    expect(response.headers.get('content-disposition')).toBe('attachment; filename="plant-42.tlog-proof"');
    const vkey = await (await alice.request('/log-key')).text();
    const proof = await response.text();
    const { event, entry, index, checkpoint } = verifyTlogProof(proof, vkey);
    expect(event).toMatchObject({
      stream: 'plant-alice of receipts/42',
      data: { id: '42', user: 'alice of receipts', name: 'Fern', tag: 'indoor' },
    });
    expect(checkpoint.origin).toBe(server.origin);
    expect(index).toBeLessThan(checkpoint.size);
    const [tile, width] = [Math.floor(index / 256), (index % 256) + 1];
    const path = `00${tile}${width < 256 ? `.p/${width}` : ''}`;
    expect(entriesIn(await bytes(`/tile/entries/${path}`)).at(-1)).toEqual(entry);
    expect(() => verifyTlogProof(proof.replace(/index .*/, `index ${index - 1}`), vkey)).toThrow();
  });
});

describe('the transparency log', () => {
  const { as, audit } = clients(embedded);

  test.each([
    '/tile/0/000',
    '/tile/0/001.p/3',
    '/tile/1/000.p/1',
    '/tile/entries/000',
    '/tile/entries/001.p/3',
  ])('a client may keep %s for ever, and a shared cache may not', async (path) => {
    const { headers } = await audit(path);
    expect(headers.get('content-type')).toBe('application/octet-stream');
    expect(headers.get('cache-control')).toBe('private, max-age=31536000, immutable');
    expect(headers.get('content-encoding')).toBeNull();
  });

  test('a plant that does not exist, or is of another user, has no receipt: 40402', async () => {
    await as('alice of secrets').create(7, { name: 'Fern' });
    const messages = [
      await refusedWith(40402, await as('bob of secrets').request('/proofs/plants?id=7')),
      await refusedWith(40402, await as('bob of secrets').request('/proofs/plants?id=8')),
      await refusedWith(40402, await audit('/proofs/plants?id=8&user=alice%20of%20secrets')),
      await refusedWith(40402, await audit('/proofs/plants?id=7&user=nobody')),
    ];
    expect(new Set(messages).size).toBe(1);
    const others = as('bob of secrets').request('/proofs/plants?id=7&user=alice%20of%20secrets');
    await refusedWith(40301, await others);
    expect((await audit('/proofs/plants?id=7&user=alice%20of%20secrets')).status).toBe(200);
  });

  test('responds to HEAD as to GET, without the body', async () => {
    const paths = ['/checkpoint', '/log-key', '/tile/0/000', '/tile/entries/000', '/tile/9/000', '/tile/x'];
    for (const path of [...paths, '/proofs/plants?id=7&user=u0', '/proofs/plants?id=x']) {
      const [given, head] = [await audit(path), await audit(path, { method: 'HEAD' })];
      expect(await head.text()).toBe('');
      expect(fixedParts(head, 'content-length'), path).toEqual(fixedParts(given, 'content-length'));
      await given.arrayBuffer();
    }
  });
});

describe('a request is refused', () => {
  const { as, audit } = clients(embedded);
  const FOR_AUDITORS = ['/checkpoint', '/tile/0/000', '/tile/entries/000', '/tile/x', '/tile/9/000'];

  test.each([...FOR_AUDITORS, '/proofs/plants?id=1&user=u1', '/proofs/plants?id=x&user=u1'])(
    'without the scope audit, before anything else: %s',
    async (path) => {
      await refusedWith(40301, await as('alice').request(path));
      await refusedWith(40301, await as('alice', 'read').request(path));
    },
  );

  test.each([...FOR_AUDITORS.filter((path) => !path.includes('/9/') && path !== '/tile/x'), '/log-key'])(
    'not with the scope monitor, which has no content: %s',
    async (path) => {
      expect((await as('mona', 'monitor').request(path)).status).toBe(200);
    },
  );

  test.each([
    '/plants',
    '/events',
    '/events?order=descending',
    '/events/histogram',
    '/proofs/plants?id=1',
    '/proofs/plants?id=1&user=u1',
    '/proofs/erasures?index=0',
  ])('with the scope monitor alone: %s', async (path) => {
    await refusedWith(40301, await as('u1', 'monitor').request(path));
    await refusedWith(40301, await as('u1', 'read monitor write').request(path));
  });

  test('with the scope monitor alone, also a plant, and an erasure', async () => {
    await refusedWith(40301, await as('mona', 'monitor').create(1, { name: 'Fern' }));
    const headers = { 'content-type': 'application/json' };
    const erasure = { method: 'POST', headers, body: '{"user":"mona"}' };
    await refusedWith(40301, await as('mona', 'monitor').request('/erasures', erasure));
    expect((await as('mona', 'monitor audit').request('/plants')).status).toBe(200);
    expect((await as('mona', 'erase monitor').request('/plants')).status).toBe(200);
  });

  test.each([...FOR_AUDITORS, '/log-key', '/proofs/plants?id=1'])('without a token: %s', async (path) => {
    await refusedWith(40101, await fetch(`${embedded.url}${path}`));
  });

  test.each(['', '0/000.p/256', '0//000', 'entries/0', '0/%2e%2e/000'])(
    'with 40401 for what is not the path of a tile: /tile/%s',
    async (path) => {
      await refusedWith(40401, await audit(`/tile/${path}`));
    },
  );

  test('not for escapes in the path of a tile, as generated clients send them', async () => {
    expect((await audit('/tile/0%2F000.p%2F5')).status).toBe(200);
    expect((await audit('/tile/entries/000.p%2F5')).status).toBe(200);
  });

  test.each([
    ['', 'id'],
    ['?id=01', 'id'],
    ['?id=9223372036854775808', 'id'],
    ['?id=1&id=1', 'id'],
    ['?id=1&user=%00', 'user'],
    ['?id=1&user=a&user=b', 'user'],
  ])('with 40004 for an invalid query: /proofs/plants%s', async (query, name) => {
    expect(await refusedWith(40004, await audit(`/proofs/plants${query}`))).toMatch(RegExp(`^${name} `));
  });
});

test('an empty log has a checkpoint, no tiles, and a root in its replay', async () => {
  const service = await startServiceWithTree();
  const { audit, checkpoint } = clients(service);
  const root = rootOf([]);
  expect(await checkpoint()).toEqual({ origin: 'urn:plant-store', size: 0, root });
  for (const path of ['0/000', '0/000.p/1', 'entries/000.p/1'])
    await refusedWith(40401, await audit(`/tile/${path}`));
  const { headers } = await audit('/events');
  expect(headers.get('checkpoint')).toBe(`0 ${Buffer.from(root, 'hex').toString('base64')}`);
  await refusedWith(40402, await service.as('alice').request('/proofs/plants?id=1'));
});

/** The API over a log with one plant of alice and an empty tree; both can be overridden. */
async function overFakeTree(
  given: { store?: Partial<EventStore>; tree?: object; reached?: () => Promise<void> } = {},
) {
  const view = {
    head: { logId: 'm', position: 0n, size: 0, root: hash('sha256', '') },
    progress: { logId: 'm', position: 0n, eventId: '' },
    save: () => {},
    ...given.tree,
  };
  const tree = {
    notReady: undefined as string | undefined,
    readable: view,
    view,
    save: () => {},
    reached: given.reached ?? (async () => {}),
  };
  const metrics = new Metrics('');
  const dataDir = tempDir();
  const transparency = publish(tree, {
    observer: auditMetrics(metrics, tree as never),
    dataDir,
    intervalMs: 1,
  });
  const { url, log } = await appOver(
    {
      lastPosition: async () => 0n,
      readStream: async () => [recorded(1n)],
      readAll: async () => ({ events: [], position: 0n, isEnd: true }),
      ...given.store,
    },
    { ...AUDITORS, transparency, metrics },
  );
  const get = (path: string) => fetch(`${url}${path}`, { headers: { authorization: 'Bearer carol' } });
  /** The checkpoint that a replay names. */
  const replayed = async () => {
    const response = await get('/events');
    await response.text();
    return response.headers.get('checkpoint');
  };
  const refusals = async () =>
    [...(await metrics.read()).text.matchAll(/^checkpoints_refused{reason="(\w+)"} 1$/gm)].map(
      ([, reason]) => reason,
    );
  return { ...transparency, tree, dataDir, refusals, get, log, replayed };
}

test('the last checkpoint is served while the log is unavailable', async () => {
  const { tree, get, verifierKey } = await overFakeTree({
    store: { lastPosition: () => Promise.reject(new StoreUnavailable('closed')) },
  });
  await expect.poll(async () => (await get('/checkpoint')).status).toBe(200);
  tree.notReady = 'the event store is unavailable';
  const note = await (await get('/checkpoint')).text();
  expect(verifyCheckpoint(note, formatVerifierKey(verifierKey)).size).toBe(0);
});

test.each(['/tile/0/000', '/tile/entries/000', '/proofs/plants?id=1&user=alice'])(
  'while the tree is behind, %s is 50302',
  async (path) => {
    const reached = async () => {
      throw new ViewBehind('The Merkle tree is not up to date yet; retry.');
    };
    const { get } = await overFakeTree({ reached, tree: { has: () => false } });
    const response = await get(path);
    expect(response.headers.get('retry-after')).toBe('1');
    expect(await refusedWith(50302, response)).toMatch(/Merkle tree/);
  },
);

test('a plant whose event was altered after it was hashed has no receipt: 50002', async () => {
  const service = await startServiceWithTree();
  const { as, audit } = clients(service);
  for (const id of [1, 2]) await as('alice').create(id, { name: 'Fern' });
  expect((await audit('/proofs/plants?id=1&user=alice')).status).toBe(200);
  alterLog(service.dir, "UPDATE events SET data = replace(data, 'Fern', 'Oak') WHERE position = 1");
  const message = await refusedWith(50002, await as('alice').request('/proofs/plants?id=1'));
  expect(message).toMatch(/^The log no longer has this event/);
  expect((await as('alice').request('/proofs/plants?id=2')).status).toBe(200);
  expect(service.log().filter(({ msg }) => msg === 'request failed')).toMatchObject([
    {
      err: {
        message: 'the log contradicts its Merkle tree, or its last checkpoint, at position 1: run verify',
      },
    },
  ]);
});
