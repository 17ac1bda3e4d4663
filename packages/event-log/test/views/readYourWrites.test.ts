import { expect, test } from 'vitest';
import type { Follower } from '../../src/views/follow.ts';
import { ReadYourWrites } from '../../src/views/readYourWrites.ts';
import type { View } from '../../src/views/view.ts';

/** A follower that records its name and the position that is waited for. */
function follower(name: string, waited: string[]) {
  const view = { name, progress: { logId: 'log', position: 5n, eventId: 'event-5' } } as View;
  const reached: Follower['reached'] = async (position) => void waited.push(`${name} ${position}`);
  return { view, readable: view, resets: 0, notReady: undefined as string | undefined, reached };
}

function twoViews({ maxUsers = 100 } = {}) {
  const waited: string[] = [];
  const [one, other] = [follower('one', waited), follower('other', waited)];
  const reads = new ReadYourWrites([one, other] as unknown as Follower[], maxUsers);
  return { one, other, reads, waited };
}

test('a read of any view waits for the write acknowledged to its user, by its own follower only', async () => {
  const { one, other, reads, waited } = twoViews();
  reads.acknowledge('alice', 'log', 7n);
  expect(await reads.upTo(one.view, 'alice', 'log', 0n)).toBe(5n);
  expect(await reads.upTo(other.view, 'alice', 'log', 9n)).toBe(5n);
  expect(waited).toEqual(['one 7', 'other 9']);
});

test('a read of another user does not wait for it', async () => {
  const { one, reads, waited } = twoViews();
  reads.acknowledge('alice', 'other log', 7n);
  await reads.caughtUp(one.view, 'bob');
  await reads.upTo(one.view, 'bob', 'log', 0n);
  expect(waited).toEqual(['one 0']);
  await reads.caughtUp(one.view, 'alice');
  expect(waited).toEqual(['one 0', 'one 0']);
});

test('the last write acknowledged to a user counts, in any order of acknowledgements', async () => {
  const { one, reads, waited } = twoViews();
  for (const position of [7n, 9n, 8n]) reads.acknowledge('alice', 'log', position);
  await reads.upTo(one.view, 'alice', 'log', 0n);
  expect(waited).toEqual(['one 9']);
});

test('of more users than are kept apart, the earliest writes are waited for by all others', async () => {
  const { one, reads, waited } = twoViews({ maxUsers: 2 });
  for (const [user, position] of Object.entries({ alice: 7n, bob: 8n, carol: 9n, dave: 10n }))
    reads.acknowledge(user, 'log', position);
  for (const user of ['alice', 'bob', 'carol', 'dave', 'erin']) await reads.upTo(one.view, user, 'log', 0n);
  expect(waited).toEqual(['one 8', 'one 8', 'one 9', 'one 10', 'one 8']);
});

test('writes that a view has reached do not count as kept', async () => {
  const { one, other, reads, waited } = twoViews({ maxUsers: 1 });
  reads.acknowledge('alice', 'log', 5n); // as far as the views are
  reads.acknowledge('bob', 'log', 6n);
  await reads.upTo(one.view, 'carol', 'log', 0n);
  await reads.upTo(other.view, 'bob', 'log', 0n);
  expect(waited).toEqual(['one 0', 'other 6']);
});

test('an acknowledged write does not count for a view that has been reset since', async () => {
  const { one, other, reads, waited } = twoViews();
  reads.acknowledge('alice', 'log', 7n);
  one.resets++;
  await reads.upTo(one.view, 'alice', 'log', 0n);
  await reads.upTo(other.view, 'alice', 'log', 0n);
  expect(waited).toEqual(['one 0', 'other 7']);
});

test('a view can be read while another view cannot', async () => {
  const { one, other, reads, waited } = twoViews();
  other.notReady = 'other has halted';
  await reads.caughtUp(one.view, 'alice');
  expect(waited).toEqual([]);
  await reads.caughtUp(other.view, 'alice');
  expect(waited).toEqual(['other 0']);
});
