import { setImmediate as nextTurn } from 'node:timers/promises';
import { expect, onTestFinished, test } from 'vitest';
import { backOff, unlessAborted } from '../../src/time/sleep.ts';

/** The rejections that are not handled from now on. */
function unhandledRejections(): unknown[] {
  const reasons: unknown[] = [];
  const listeners = process.listeners('unhandledRejection');
  process.removeAllListeners('unhandledRejection').on('unhandledRejection', (reason) => reasons.push(reason));
  onTestFinished(() => {
    process.removeAllListeners('unhandledRejection');
    for (const listener of listeners) process.on('unhandledRejection', listener);
  });
  return reasons;
}

test.each([
  ['before the call', 0],
  ['before the rejection', 1],
])('a promise that rejects after the signal has aborted %s is ignored', async (_, turns) => {
  const unhandled = unhandledRejections();
  const controller = new AbortController();
  const call = Promise.withResolvers<string>();
  if (turns === 0) controller.abort();
  const result = unlessAborted(call.promise, controller.signal);
  controller.abort();
  call.reject(new Error('no response'));
  expect(await result).toBeUndefined();
  await nextTurn();
  expect(unhandled).toEqual([]);
});

test('back-off doubles up to a limit, with jitter, in whole milliseconds', () => {
  for (const [failures, mean] of [50, 100, 200, 400, 500, 500].entries())
    for (let i = 0; i < 10; i++) {
      const delayMs = backOff(failures, 500);
      expect(Number.isInteger(delayMs), `${delayMs}`).toBe(true);
      expect(Math.abs(delayMs - mean)).toBeLessThanOrEqual(mean / 2);
    }
});
