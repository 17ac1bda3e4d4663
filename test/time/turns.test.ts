import { setImmediate as nextTurn } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { Turns } from '../../src/time/turns.ts';

test('each caller gets a turn of its own, in the order of the calls', async () => {
  const turns = new Turns();
  const resolved: number[] = [];
  const all = [1, 2, 3].map((caller) => turns.next().then(() => resolved.push(caller)));
  const counts: number[] = [];
  for (let turn = 0; turn < 10; turn++) {
    await nextTurn();
    counts.push(resolved.length);
  }
  await Promise.all(all);
  expect(resolved).toEqual([1, 2, 3]);
  expect(counts).toContain(1);
  expect(counts).toContain(2);
});
