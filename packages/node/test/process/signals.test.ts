import { EventEmitter } from 'node:events';
import { beforeEach, describe, expect, onTestFinished, test, vi } from 'vitest';
import { handleSignals } from '../../src/process/signals.ts';

const TIMEOUT_MS = 9_000;
const SAME_SIGNAL_WINDOW_MS = 1_000;

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'performance'] });
  onTestFinished(() => void vi.useRealTimers());
});

/** A fake process that receives signals, and the calls of its handler. */
function fakeProcess(env = {}) {
  const process = Object.assign(new EventEmitter(), { env });
  const calls: string[] = [];
  handleSignals(process, {
    stop: (signal) => calls.push(`stop ${signal}`),
    force: (signal) => calls.push(`force ${signal}`),
    timeoutMs: TIMEOUT_MS,
  });
  return { calls, send: (signal: NodeJS.Signals) => void process.emit(signal, signal) };
}

describe.for(['SIGTERM', 'SIGINT', 'SIGHUP'] as const)('%s', (signal) => {
  const other = signal === 'SIGTERM' ? 'SIGINT' : 'SIGTERM';

  test.for<[string, NodeJS.Signals, number, string[]]>([
    ['is ignored when it is repeated within the window', signal, SAME_SIGNAL_WINDOW_MS - 1, []],
    ['forces the exit when it is repeated later', signal, SAME_SIGNAL_WINDOW_MS, [`force ${signal}`]],
    ['is followed by another signal, which forces the exit', other, 0, [`force ${other}`]],
  ])('%s', ([, next, afterMs, forced]) => {
    const { calls, send } = fakeProcess();
    send(signal);
    vi.advanceTimersByTime(afterMs);
    send(next);
    expect(calls).toEqual([`stop ${signal}`, ...forced]);
  });

  test('stops the process gracefully, and forces the exit if it has not ended in time', () => {
    const { calls, send } = fakeProcess();
    send(signal);
    vi.advanceTimersByTime(TIMEOUT_MS - 1);
    expect(calls).toEqual([`stop ${signal}`]);
    vi.advanceTimersByTime(1);
    expect(calls).toEqual([`stop ${signal}`, `force ${signal}`]);
  });
});

test('a signal that was ignored at the start stays ignored, and does not count as the first', () => {
  const { calls, send } = fakeProcess({ IGNORED_SIGNALS: ' SIGHUP SIGINT' });
  for (const signal of ['SIGHUP', 'SIGINT', 'SIGTERM'] as const) send(signal);
  expect(calls).toEqual(['stop SIGTERM']);
});
