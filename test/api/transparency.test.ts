import { hash, randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { type IncomingMessage, request } from 'node:http';
import { join } from 'node:path';
import { gunzipSync } from 'node:zlib';
import { alterLog, appendTo, logWith } from '@event-sourced/testing/logs';
import { fixedParts, refusedWith } from '@event-sourced/testing/refusal';
import { startFakeServer } from '@event-sourced/testing/stores';
import { tempDir } from '@event-sourced/testing/tempDir';
import { afterAll, describe, expect, test, vi } from 'vitest';
import { type EventStore, StoreUnavailable } from '../../packages/event-log/src/eventStore.ts';
import { ViewBehind } from '../../packages/event-log/src/views/waiting.ts';
import { Metrics } from '../../packages/http/src/metrics/metrics.ts';
import { leafHash, nodeHash } from '../../packages/transparency-log/src/merkle/merkleTree.ts';
import type { Tile } from '../../packages/transparency-log/src/merkle/tiles.ts';
import { formatVerifierKey } from '../../packages/transparency-log/src/notes/signedNote.ts';
import { CheckpointFileUnusable } from '../../packages/transparency-log/src/signer/checkpointSigner.ts';
import { AUDITORS, appOver, recorded } from '../support/appOver.ts';
import { auditorToken } from '../support/eventStream.ts';
import { untilAvailable } from '../support/instances.ts';
import { client, serviceOfFile, startServiceWithTree } from '../support/service.ts';
import { newSigner } from '../support/signer.ts';
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

  test('the owner of a new plant gets a receipt for it at once', async () => {
    const alice = as('alice of receipts');
    await alice.create(42, { name: 'Fern', tag: 'indoor' });
    const response = await alice.request('/proofs/plants?id=42');
    expect(response.headers.get('content-type')).toBe('text/plain; charset=utf-8');
    expect(response.headers.get('cache-control')).toBe('no-store');
    expect(response.headers.get('content-disposition')).toBe('attachment; filename="plant-42.tlog-proof"');
    const vkey = await (await alice.request('/log-key')).text();
    const proof = await response.text();
    const { entry, index, checkpoint } = verifyTlogProof(proof, vkey);
    expect(entry).toMatchObject({
      stream: 'plant-alice of receipts/42',
      data: { id: '42', user: 'alice of receipts', name: 'Fern', tag: 'indoor' },
    });
    expect(checkpoint.origin).toBe(server.origin);
    expect(index).toBeLessThan(checkpoint.size);
    const [tile, width] = [Math.floor(index / 256), (index % 256) + 1];
    const path = `00${tile}${width < 256 ? `.p/${width}` : ''}`;
    expect(JSON.parse(`${entriesIn(await bytes(`/tile/entries/${path}`)).at(-1)}`)).toEqual(entry);
    expect(() => verifyTlogProof(proof.replace(/index .*/, `index ${index - 1}`), vkey)).toThrow();
  });
});

describe('the transparency log', () => {
  const { as, audit } = clients(embedded);

  test.each(['/tile/0/000', '/tile/0/001.p/3', '/tile/1/000.p/1'])(
    'a client may keep %s for ever, and a shared cache may not',
    async (path) => {
      const { headers } = await audit(path);
      expect(headers.get('content-type')).toBe('application/octet-stream');
      expect(headers.get('cache-control')).toBe('private, max-age=31536000, immutable');
    },
  );

  test('no cache keeps entries, which may be erased', async () => {
    const { headers } = await audit('/tile/entries/000');
    expect(headers.get('content-type')).toBe('application/octet-stream');
    expect(headers.get('cache-control')).toBe('no-store');
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

describe('entries', () => {
  /** A response as it is sent: fetch would decompress it. */
  async function entries(accept?: string) {
    const authorization = `Bearer ${await auditorToken(embedded.dir)}`;
    const headers = { authorization, ...(accept !== undefined && { 'accept-encoding': accept }) };
    const sent = request(`${embedded.url}/tile/entries/000`, { headers, agent: false }).end();
    const [response] = (await once(sent, 'response')) as [IncomingMessage];
    const { 'content-encoding': encoding, vary } = response.headers;
    return { encoding, vary, body: Buffer.concat(await response.toArray()) };
  }

  test.each(['gzip', 'GZIP', 'identity;q=0.5, gzip'])(
    'are compressed for a client that accepts %s',
    async (accept) => {
      const plain = await entries();
      const { encoding, vary, body } = await entries(accept);
      expect([encoding, vary]).toEqual(['gzip', 'Accept-Encoding']);
      expect(body.length).toBeLessThan(plain.body.length / 2);
      expect(gunzipSync(body)).toEqual(plain.body);
    },
  );

  test.each([undefined, 'br', 'gzip;q=0.5, identity'])(
    'are not compressed for a client that accepts %s',
    async (accept) => {
      const { encoding, vary, body } = await entries(accept);
      expect([encoding, vary]).toEqual([undefined, 'Accept-Encoding']);
      expect(entriesIn(body)).toHaveLength(256);
    },
  );
});

test('a cache distinguishes origins and encodings', async () => {
  const { audit } = clients(eventStoreDb);
  const { headers } = await audit('/tile/entries/000.p/1', { headers: { origin: 'https://app.example' } });
  expect(headers.get('vary')?.split(', ').toSorted()).toEqual(['Accept-Encoding', 'Origin']);
  expect(headers.get('access-control-allow-origin')).toBe('https://app.example');
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
  const signer = newSigner();
  const view = {
    head: { logId: 'm', position: 0n, size: 0, root: hash('sha256', '') },
    progress: { logId: 'm', position: 0n, eventId: '' },
    ...given.tree,
  };
  const tree = {
    notReady: undefined,
    ready: view,
    view,
    reached: given.reached ?? (async () => {}),
    onReady: () => {},
  };
  const state = { now: 0 };
  const metrics = new Metrics('');
  const { url, log } = await appOver(
    {
      lastPosition: async () => 0n,
      readStream: async () => [recorded(1n)],
      readAll: async () => ({ events: [], position: 0n, isEnd: true }),
      ...given.store,
    },
    {
      ...AUDITORS,
      transparency: { tree: tree as never, signer },
      now: () => new Date(state.now),
      metrics,
    },
  );
  const get = (path: string) =>
    fetch(`${url}${path}`, { headers: { authorization: 'Bearer carol', 'accept-encoding': 'identity' } });
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
  return { signer, tree, state, refusals, get, log, replayed };
}

test('a checkpoint is signed again after a second at the earliest', async () => {
  const leaves = [leafHash('a'), leafHash('b')] as const;
  const hashes = Buffer.from(leaves.join(''), 'hex');
  const { signer, tree, state, get } = await overFakeTree({
    tree: { readTile: ({ width }: Tile) => hashes.subarray(0, width * 32) },
  });
  Object.assign(tree.view.head, { size: 1, root: leaves[0] });
  const vkey = formatVerifierKey(signer.verifierKey);
  const size = async () => verifyCheckpoint(await (await get('/checkpoint')).text(), vkey).size;
  expect(await size()).toBe(1);
  Object.assign(tree.view.head, { size: 2, root: nodeHash(...leaves) });
  state.now = 999;
  expect(await size()).toBe(1);
  state.now = 1_000;
  expect(await size()).toBe(2);
});

test('entries of a log that becomes unreadable are aborted', async () => {
  const readAll = vi
    .fn<EventStore['readAll']>()
    .mockResolvedValueOnce({ events: [recorded(1n)], position: 1n, isEnd: false })
    .mockRejectedValue(new StoreUnavailable('the disk is gone'));
  const { get, log } = await overFakeTree({
    store: { readAll },
    tree: { has: () => true, tileStart: () => 0n },
  });
  const response = await get('/tile/entries/000.p/2');
  expect(response.status).toBe(200);
  await expect(response.arrayBuffer()).rejects.toThrow();
  await expect.poll(log).toMatch(/the disk is gone.*response aborted/);
});

test.each(['/checkpoint', '/tile/0/000', '/tile/entries/000', '/proofs/plants?id=1&user=alice'])(
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
  expect(message).toMatch(/^The log no longer has the event that created this plant/);
  expect((await as('alice').request('/proofs/plants?id=2')).status).toBe(200);
  expect(service.log().filter(({ msg }) => msg === 'request failed')).toMatchObject([
    { err: { message: 'the log no longer has the event at position 1 that is in its Merkle tree' } },
  ]);
});

test('two instances of one log sign the same checkpoint, and each has the tiles of a checkpoint of the other', async () => {
  const { dir, fake, origin } = eventStoreDb;
  const { url } = await startServiceWithTree({
    EVENTSTOREDB_URL: (await startFakeServer({ log: fake.log })).url,
    KEY_FILE: join(dir, 'key.json'),
    LOG_KEY_FILE: join(dir, 'log-key.json'),
    LOG_ORIGIN: origin,
  });
  const [first, second] = [clients(eventStoreDb), clients({ url, dir })];
  const proofFrom = async ({ as }: typeof first, id: number) =>
    (await untilAvailable(() => as('alice of both').request(`/proofs/plants?id=${id}`))).text();
  for (const id of [1, 2]) {
    await first.as('alice of both').create(id, { name: 'Fern' });
    const proof = await proofFrom(first, id);
    const { index, checkpoint } = verifyTlogProof(proof, await second.text('/log-key'));
    expect(checkpoint.size).toBe(index + 1);
    const end = `001.p/${checkpoint.size - 256}`;
    const entries = [await second.bytes('/tile/entries/000'), await second.bytes(`/tile/entries/${end}`)];
    expect(await second.bytes(`/tile/0/${end}`)).toHaveLength((checkpoint.size - 256) * 32);
    expect(rootOf(entries.flatMap(entriesIn))).toBe(checkpoint.root);
    expect(await proofFrom(second, id)).toBe(proof);
  }
});

const UNUSABLE = new CheckpointFileUnusable('cannot use the signed checkpoint');

test('checkpoints are refused until one can be saved, even if the previous one can be read', async () => {
  const { signer, tree, refusals, get, replayed } = await overFakeTree();
  const sign = vi.spyOn(signer, 'sign').mockRejectedValue(UNUSABLE);
  await refusedWith(50304, await get('/checkpoint'));
  tree.onReady();
  expect(await replayed()).toMatch(/^0 /);
  expect(await refusals()).toEqual(['file_unusable']);
  sign.mockRestore();
  expect((await get('/checkpoint')).status).toBe(200);
  expect(await refusals()).toEqual([]);
});

test('a replay names its checkpoint again after the end of the log could not be read in time', async () => {
  const { promise, resolve } = Promise.withResolvers<bigint>();
  const lastPosition = vi.fn(async () => 0n).mockReturnValueOnce(promise);
  const { replayed } = await overFakeTree({ store: { lastPosition } });
  expect(await replayed()).toBeNull();
  resolve(0n);
  expect(await replayed()).toMatch(/^0 /);
});
