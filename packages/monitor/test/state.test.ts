import { expect, test } from 'vitest';
import type { Received } from '../src/received.ts';
import { keep, keptCheckpoints, NEW_STATE, withCompared } from '../src/state.ts';

const received = (size: number): Received => ({
  origin: 'log.example',
  size,
  root: `${size}`.repeat(64),
  note: `note ${size}`,
  receivedAt: '2026-01-01T00:00:00.000Z',
});

test('the first checkpoint that no compared tree includes stays until one does', () => {
  const [first, larger, largest] = [received(5), received(7), received(9)];
  const state = [first, larger, largest].reduce(keep, NEW_STATE);
  expect(keptCheckpoints(state)).toEqual([first, largest]);
  const compared = received(3);
  const tiles = { partial: new Map() } as never;
  expect(withCompared(state, compared, tiles)).toMatchObject({ compared, first, largest });
  expect(withCompared(state, received(6), tiles)).toMatchObject({ first: largest, largest });
  expect(keptCheckpoints(withCompared(state, largest, tiles))).toEqual([largest]);
});
