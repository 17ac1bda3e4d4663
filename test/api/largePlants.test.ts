import { once } from 'node:events';
import { join } from 'node:path';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { connection, getWith } from '@event-sourced/testing/rawHttp';
import { tempDir } from '@event-sourced/testing/tempDir';
import { afterAll, describe, expect, onTestFinished, test, vi } from 'vitest';
import { PAGE_BYTES, PlantsByUser } from '../../projections/plantsByUser.ts';
import { VIEWS } from '../../src/views.ts';
import { appOver } from '../support/appOver.ts';
import { created } from '../support/created.ts';
import { ReadsPerTurn } from '../support/readsPerTurn.ts';

/** More than the buffers of a connection hold. */
const PLANTS = 600;
const NAMES = Array.from({ length: PLANTS }, (_, i) => `${i} ${'x'.repeat(30_000)}`);

// A view with alice's large plants, and a plant of bob, for all tests of this file.
const resources = new AsyncDisposableStack();
afterAll(() => resources.disposeAsync());
const plantsByUser = VIEWS.plantsByUser.open(join(tempDir(afterAll), 'view.db'));
resources.defer(() => plantsByUser.close());
plantsByUser.bind('m');
const events = NAMES.map((name, i) => created(i + 1, 'alice', name));
plantsByUser.apply([...events, created(PLANTS + 1, 'bob', 'Oak')], new Set());
await plantsByUser.save();

/** The API over this view. */
async function serve() {
  const { app, url } = await appOver({}, { plantsByUser });
  const get = (user: string, query = '') =>
    fetch(`${url}/plants${query}`, { headers: { authorization: `Bearer ${user}` } });
  return { app, url, get };
}

const namesIn = async (response: Response): Promise<string[]> =>
  ((await response.json()) as { name: string }[]).map(({ name }) => name);

/** The total size of first pages that one turn of the event loop reads: 1 MiB. */
const FIRST_PAGES = (1024 * 1024) / PAGE_BYTES;

describe('a list of large plants', () => {
  test.each(['', '?limit=600'])('has all of them: /plants%s', async (query) => {
    const { get } = await serve();
    const response = await get('alice', query);
    expect(response.headers.get('link')).toBeNull();
    expect(await namesIn(response)).toEqual(NAMES);
  });

  test('waits in no more memory than a page for a client that does not read', async () => {
    const { app, url } = await serve();
    const accepted = once(app.server, 'connection');
    connection(url).pause().write(getWith('/plants', 'alice'));
    const [server] = await accepted;
    await expect.poll(() => server.writableLength).toBeGreaterThan(0);
    let most = 0;
    // More turns of the event loop than the list has pages.
    for (let turn = 0; turn < 500; turn++) {
      await nextTurn();
      most = Math.max(most, server.writableLength);
    }
    expect(most).toBeLessThan(2 * PAGE_BYTES);
  });
});

function countReads(): ReadsPerTurn {
  const reads = new ReadsPerTurn();
  const readPage = vi.spyOn(plantsByUser, 'readPage').mockImplementation((...query) => {
    reads.count();
    return PlantsByUser.prototype.readPage.apply(plantsByUser, query);
  });
  onTestFinished(() => readPage.mockRestore());
  return reads;
}

test('first pages are read in turns, too, if they are large', async () => {
  const { app } = await serve();
  const reads = countReads();
  const list = (user: string) =>
    app.inject({ url: '/plants?limit=8', headers: { authorization: `Bearer ${user}` } });
  await Promise.all(Array.from({ length: 40 }, () => list('bob')));
  expect(reads.most).toBeGreaterThan(FIRST_PAGES + 1);
  for (let turn = 0; turn < 2; turn++) await nextTurn();
  reads.most = 0;
  const lists = await Promise.all(Array.from({ length: 40 }, () => list('alice')));
  for (const response of lists) expect(response.json()).toHaveLength(8);
  // So many are more than 1 MiB; then there is one in each turn.
  expect(reads.most).toBeLessThanOrEqual(FIRST_PAGES + 1);
});

test('lists are read in turns: a few pages in each turn of the event loop, however many lists there are', async () => {
  const { get } = await serve();
  const reads = countReads();
  const lists = Array.from({ length: 40 }, async () =>
    expect(await namesIn(await get('alice', '?limit=60'))).toEqual(NAMES.slice(0, 60)),
  );
  await Promise.all(lists);
  expect(reads.total).toBeGreaterThan(40 * 10);
  expect(reads.most).toBeLessThanOrEqual(FIRST_PAGES + 1);
});
