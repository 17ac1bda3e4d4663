import { expect, test } from 'vitest';
import { readOptions } from './options.ts';

const read = (...args: string[]) => readOptions(['node', 'bench.ts', ...args]);

test('everything is measured, but EventStoreDB only if it is there', () => {
  const { only, rounds, seconds, events } = read();
  expect([...only]).toEqual(['rebuild', 'start', 'audit', 'tree', 'metrics', 'post', 'connections', 'get']);
  expect({ rounds, seconds, events }).toEqual({ rounds: 5, seconds: 4, events: 1_000_000 });
});

test('--only names what is measured', () => {
  expect([...read('--only', 'post,get').only]).toEqual(['post', 'get']);
});
