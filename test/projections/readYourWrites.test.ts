import { expect, test } from 'vitest';
import type { Follower } from '../../projections/follow.ts';
import { ReadYourWrites } from '../../projections/readYourWrites.ts';
import type { View } from '../../projections/view.ts';

/** A follower that records what is waited for. */
function follower(name: string, waited: [string, bigint][]) {
  const view = { name, applied: { logId: 'log', position: 5n, eventId: 'event-5' } } as View;
  const reached: Follower['reached'] = async (position) => void waited.push([name, position]);
  return { view, resets: 0, notReady: undefined as string | undefined, reached, wake: () => {} };
}

function twoViews() {
  const waited: [string, bigint][] = [];
  const [one, other] = [follower('one', waited), follower('other', waited)];
  const reads = new ReadYourWrites([one, other] as unknown as Follower[]);
  return { one, other, reads, waited };
}

test('a read of any view waits for every acknowledged write, by its own follower only', async () => {
  const { one, other, reads, waited } = twoViews();
  reads.acknowledge('log', 7n);
  expect(await reads.upTo(one.view, 'log', 0n)).toBe(5n);
  expect(await reads.upTo(other.view, 'log', 9n)).toBe(5n);
  expect(waited).toEqual([
    ['one', 7n],
    ['other', 9n],
  ]);
});

test('an acknowledged write does not count for a view that has been reset since', async () => {
  const { one, other, reads, waited } = twoViews();
  reads.acknowledge('log', 7n);
  one.resets++;
  await reads.upTo(one.view, 'log', 0n);
  await reads.upTo(other.view, 'log', 0n);
  expect(waited).toEqual([
    ['one', 0n],
    ['other', 7n],
  ]);
});

test('a view can be read while another one cannot', async () => {
  const { one, other, reads, waited } = twoViews();
  other.notReady = 'other has halted';
  await reads.ready(one.view);
  expect(waited).toEqual([]);
  await reads.ready(other.view);
  expect(waited).toEqual([['other', 0n]]);
});
