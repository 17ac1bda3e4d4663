import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { erasable, eraseIn, recordOf, scrubbed, stubFor } from '@event-sourced/testing/erase';
import { filesWith } from '@event-sourced/testing/filesWith';
import { logWith } from '@event-sourced/testing/logs';
import { openIn } from '@event-sourced/testing/stores';
import { tempDir } from '@event-sourced/testing/tempDir';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { WalThread } from '../../src/disk/walThread.ts';
import { type ErasableStore, NO_STREAM, type RecordedEvent, START } from '../../src/eventStore.ts';
import { Follower } from '../../src/views/follow.ts';
import { ViewComparison } from '../../src/views/viewComparison.ts';
import { ToDoLists } from './toDoLists.ts';

const NONE = new Set<string>();
const DELETE_ROWS = { onErasure: 'deleteRows' } as const;
const USERS = ['alice', 'bob'];

async function logIn(dir: string, items = 3): Promise<ErasableStore> {
  const store = await openIn(dir);
  const appends = Array.from({ length: items }, (_, i) =>
    USERS.map((list) => {
      const data = { list, id: `${i}`, title: `to do of ${list}` };
      const event = { id: crypto.randomUUID(), type: 'ItemAdded', data, metadata: {} };
      return store.append(`plant-${list}/${i}`, event, NO_STREAM);
    }),
  );
  await Promise.all(appends.flat());
  return erasable(store);
}

const erase = (store: ErasableStore, list: string, perRecord?: number): Promise<number> =>
  eraseIn(store, 'plant-', (stream) => stream.startsWith(`plant-${list}/`), perRecord);

function followIn(dir: string, store: ErasableStore, more: object, withThread = true) {
  const walThread = new WalThread();
  const view = new ToDoLists(join(dir, 'view.db'), withThread ? walThread : undefined, more);
  const follower = new Follower({ store, view });
  let closed: Promise<void> | undefined;
  const close = (): Promise<void> => {
    closed ??= follower.stop().then(async () => {
      view.close();
      await walThread.close();
    });
    return closed;
  };
  onTestFinished(close);
  return { follower, view, close };
}

/** The files of the view that have this text. */
const viewFilesWith = (dir: string, ...texts: string[]): string[] =>
  filesWith(dir, ...texts).filter((name) => name.startsWith('view'));

const caughtUp = async (follower: Follower<ToDoLists>, store: ErasableStore): Promise<void> =>
  follower.reached(await store.lastPosition());

describe('after an erasure', () => {
  test.each([true, false])(
    'a view deletes the rows, and their bytes; with a thread: %s',
    async (withThread) => {
      const dir = tempDir();
      const store = await logIn(dir, 300);
      const { follower, view } = followIn(dir, store, DELETE_ROWS, withThread);
      await caughtUp(follower, store);
      await erase(store, 'alice');
      await caughtUp(follower, store);
      expect(view.titlesOf('alice')).toEqual([]);
      expect(view.titlesOf('bob')).toHaveLength(300);
      await scrubbed(follower);
      expect(viewFilesWith(dir, 'alice')).toEqual([]);
      expect(viewFilesWith(dir, 'bob')).not.toEqual([]);
      expect(follower.rebuilds).toBe(0);
    },
  );

  test('a view that keeps its rows has no ID of an erased event, and is not rewritten', async () => {
    const dir = tempDir();
    const store = await logIn(dir);
    const scrub = vi.spyOn(WalThread.prototype, 'scrub');
    onTestFinished(() => scrub.mockRestore());
    const { follower, view } = followIn(dir, store, { onErasure: 'keep' });
    await caughtUp(follower, store);
    view.save();
    const ids: string[] = [];
    for (let i = 0; i < 100; i++) {
      const data = { list: 'carol', id: `${i}`, title: 'Fern' };
      const event = { id: crypto.randomUUID(), type: 'ItemAdded', data, metadata: {} };
      await store.append(`plant-carol/${i}`, event, NO_STREAM);
      await caughtUp(follower, store);
      view.save();
      ids.push(event.id);
    }
    expect(viewFilesWith(dir, ...ids)).not.toEqual([]);
    await erase(store, 'carol');
    await caughtUp(follower, store);
    await scrubbed(follower);
    expect(scrub).toHaveBeenCalled();
    expect(scrub.mock.calls.filter(([{ isRewritten }]) => !isRewritten)).toEqual([]);
    expect(viewFilesWith(dir, ...ids)).toEqual([]);
    expect(view.titlesOf('carol')).toHaveLength(100);
  });

  test('a view that is folded from several events is rebuilt once', async () => {
    const dir = tempDir();
    const store = await logIn(dir);
    const { follower, view } = followIn(dir, store, {});
    await caughtUp(follower, store);
    await erase(store, 'alice');
    await caughtUp(follower, store);
    expect(view.titlesOf('alice')).toEqual([]);
    expect(view.titlesOf('bob')).toHaveLength(3);
    expect(follower.rebuilds).toBe(1);
    expect(viewFilesWith(dir, 'alice')).toEqual([]);
  });

  test('a view that starts later reads stubs, and is not rebuilt', async () => {
    const dir = tempDir();
    const store = await logIn(dir);
    await erase(store, 'alice');
    const { follower, view } = followIn(dir, store, {});
    await caughtUp(follower, store);
    expect([view.titlesOf('alice'), view.titlesOf('bob').length, follower.rebuilds]).toEqual([[], 3, 0]);
  });

  test('a view whose bookmark names an erased event goes on', async () => {
    const dir = tempDir();
    const store = await logIn(dir);
    const { follower, close } = followIn(dir, store, DELETE_ROWS);
    await caughtUp(follower, store);
    await close();
    await erase(store, 'bob'); // the last event is of bob
    const next = followIn(dir, store, DELETE_ROWS);
    await caughtUp(next.follower, store);
    expect(next.follower.rebuilds).toBe(0);
    expect(next.view.titlesOf('bob')).toEqual([]);
    await scrubbed(next.follower);
    expect(viewFilesWith(dir, 'bob')).toEqual([]);
  });

  test('a reader of old pages delays the scrub, which the next start finishes', async () => {
    const dir = tempDir();
    const store = await logIn(dir);
    const { follower, close } = followIn(dir, store, DELETE_ROWS);
    await caughtUp(follower, store);
    follower.view.save();
    const reader = new DatabaseSync(join(dir, 'view.db'), { readOnly: true });
    reader.exec('BEGIN; SELECT * FROM items');
    await erase(store, 'alice');
    await caughtUp(follower, store);
    expect(await follower.scrub()).toBe(false);
    expect(follower.view.titlesOf('bob')).toHaveLength(3); // reads go on
    await close();
    expect(viewFilesWith(dir, 'alice')).not.toEqual([]);
    reader.close();
    const next = followIn(dir, store, DELETE_ROWS);
    await caughtUp(next.follower, store);
    await scrubbed(next.follower);
    expect(viewFilesWith(dir, 'alice')).toEqual([]);
    expect(next.follower.rebuilds).toBe(0);
  });

  test('a view has no copies of rows in split pages', async () => {
    const dir = logWith({ events: 5_000, type: 'ItemAdded', user: "format('list%04d', (id * 7919) % 997)" });
    {
      using db = new DatabaseSync(join(dir, 'log.db'));
      const triggers = db.prepare("SELECT name, sql FROM sqlite_schema WHERE type = 'trigger'").all();
      for (const { name } of triggers) db.exec(`DROP TRIGGER ${name}`);
      db.exec(
        `UPDATE events SET data = json_object('list', data->>'user', 'id', data->>'id', 'title', 'plant')`,
      );
      for (const { sql } of triggers) db.exec(`${sql}`);
    }
    const store = erasable(await openIn(dir));
    const { follower } = followIn(dir, store, DELETE_ROWS);
    await caughtUp(follower, store);
    const lists = Array.from({ length: 997 }, (_, n) => `list${String(n).padStart(4, '0')}`);
    const erased = lists.filter((_, n) => n % 2 === 1);
    const has = (stream: string): boolean => erased.some((list) => stream.startsWith(`plant-${list}/`));
    await eraseIn(store, 'plant-', has);
    await caughtUp(follower, store);
    await scrubbed(follower);
    expect(viewFilesWith(dir, ...erased)).toEqual([]);
    expect(viewFilesWith(dir, 'list0004')).not.toEqual([]);
    expect(follower.rebuilds).toBe(0);
  }, 300_000);

  test('a view commits no record before the rows that it names are deleted', async () => {
    const dir = tempDir();
    const store = await logIn(dir, 600);
    const { follower, view } = followIn(dir, store, DELETE_ROWS);
    await caughtUp(follower, store);
    const committed: [position: bigint, rows: number][] = [];
    const erased = vi.spyOn(view, 'erase').mockImplementation((positions) => {
      ToDoLists.prototype.erase.call(view, positions);
      view.save();
      committed.push([view.progress.position, view.titlesOf('alice').length]);
    });
    await erase(store, 'alice');
    await caughtUp(follower, store);
    expect(erased.mock.calls.length).toBeGreaterThan(1);
    const record = await store.lastPosition();
    for (const [position, rows] of committed) expect([position < record, rows < 600]).toEqual([true, true]);
    expect(view.titlesOf('alice')).toEqual([]);
  });

  test('a view follows a record in any stream, in the same batch as the event that it names', async () => {
    const dir = tempDir();
    const store = await logIn(dir, 1);
    const { follower, close } = followIn(dir, store, DELETE_ROWS);
    await caughtUp(follower, store);
    await close();
    const data = { list: 'carol', id: '1', title: 'Fern' };
    const added = { id: crypto.randomUUID(), type: 'ItemAdded', data, metadata: {} };
    await store.append('plant-carol/1', added, NO_STREAM);
    const [bobs] = (await store.readStream('plant-bob/0', 1)) as [RecordedEvent];
    await store.erase([stubFor(bobs, 'plant-')], []);
    const { event } = recordOf([store.indexOf(bobs.position)], 'plant-');
    await store.append('plant-records/1', event, NO_STREAM);
    const next = followIn(dir, store, DELETE_ROWS);
    await caughtUp(next.follower, store);
    expect(['alice', 'bob', 'carol'].map((list) => next.view.titlesOf(list).length)).toEqual([1, 0, 1]);
  });

  test.each([
    ['an event that is no stub', {}, [1]],
    ['an event that is no stub', DELETE_ROWS, [1]],
    ['what follows it', DELETE_ROWS, [600]],
  ])('a record that names %s erases nothing: %j', async (_, more, indices) => {
    const dir = tempDir();
    const store = await logIn(dir);
    const { follower, view } = followIn(dir, store, more);
    await caughtUp(follower, store);
    const { stream, event } = recordOf(indices, 'plant-');
    await store.append(stream, event, NO_STREAM);
    await caughtUp(follower, store);
    expect([view.titlesOf('bob').length, follower.rebuilds]).toEqual([3, 0]);
  });

  test.each([{}, DELETE_ROWS])('a rebuilt view has no rows of erased events: %j', async (more) => {
    const dir = tempDir();
    const store = await logIn(dir);
    await erase(store, 'alice');
    const { follower, close } = followIn(dir, store, more);
    await caughtUp(follower, store);
    await close();
    expect(viewFilesWith(dir, 'alice')).toEqual([]);
    expect(viewFilesWith(dir, 'bob')).toEqual(['view.db']);
  });
});

describe('a comparison', () => {
  async function problemsOf(dir: string, store: ErasableStore, more: object): Promise<unknown[]> {
    const logId = await store.logId();
    const options = { name: 'toDoLists', file: join(dir, 'view.db'), logId, skip: NONE };
    const open = (file: string) => new ToDoLists(file, undefined, more);
    using comparison = new ViewComparison({ ...options, open, draftFile: join(tempDir(), 'draft.db') });
    for (const event of (await store.readAll({ after: START, limit: 100 })).events) comparison.apply(event);
    return [...comparison.problems()];
  }

  test.each([{}, DELETE_ROWS])(
    'ignores rows of events that were erased after the bookmark: %j',
    async (more) => {
      const dir = tempDir();
      const store = await logIn(dir);
      const { follower, close } = followIn(dir, store, more);
      await caughtUp(follower, store);
      await close();
      await erase(store, 'alice');
      expect(await problemsOf(dir, store, more)).toEqual([]);
    },
  );

  test('finds rows of events that were erased before the bookmark', async () => {
    const dir = tempDir();
    const store = await logIn(dir);
    const { follower, close } = followIn(dir, store, DELETE_ROWS);
    await caughtUp(follower, store);
    follower.view.save();
    await erase(store, 'alice');
    await caughtUp(follower, store);
    await close();
    expect(await problemsOf(dir, store, DELETE_ROWS)).toEqual([]);
    {
      using db = new DatabaseSync(join(dir, 'view.db'));
      db.exec("INSERT INTO items VALUES ('alice', 1, '0', 'kept')");
    }
    expect(await problemsOf(dir, store, DELETE_ROWS)).toEqual([
      { position: 1n, problem: expect.stringContaining('has a row that does not follow from the log') },
    ]);
  });
});
