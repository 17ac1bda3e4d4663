import { expect, test } from 'vitest';
import { ticksOfOthers } from './machine.ts';

const MACHINE = `cpu  1000 20 300 90000 5000 0 4 600 0 0
cpu0 500 10 150 45000 2500 0 2 300 0 0`;
const PROCESS = '17 (a (b) c) S 1 17 17 0 -1 4194304 100 0 0 0 200 30 400 50 20 0 1 0 4865372 3133440 390';

test('the time of others is that of the machine without that of a process and its ended children', () => {
  expect(ticksOfOthers(MACHINE, PROCESS)).toBe(1000 + 20 + 300 + 4 + 600 - (200 + 30 + 400 + 50));
});

test('the time of others is unknown where there is no /proc', () => {
  expect(ticksOfOthers('', '')).toBeNaN();
});
