import { EventEmitter } from 'node:events';
import { beforeEach, describe, expect, onTestFinished, test, vi } from 'vitest';
import { handleSignals, SAME_SIGNAL_WINDOW_MS } from '../../src/cli/signals.ts';

const TIMEOUT_MS = 9_000;

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'performance'] });
  onTestFinished(() => void vi.useRealTimers());
});

/** A fake process that receives signals, and the calls of its handler. */
function fakeProcess() {
  const process = new EventEmitter();
  const calls: string[] = [];
  handleSignals(process, {
    stop: (signal) => calls.push(`stop ${signal}`),
    force: (signal) => calls.push(`force ${signal}`),
    timeoutMs: TIMEOUT_MS,
  });
  return { calls, send: (signal: NodeJS.Signals) => void process.emit(signal, signal) };
}

describe.for(['SIGTERM', 'SIGINT', 'SIGHUP'] as const)('%s', (signal) => {
  test('is ignored when it is repeated within the window', () => {
    const { calls, send } = fakeProcess();
    send(signal);
    vi.advanceTimersByTime(SAME_SIGNAL_WINDOW_MS - 1);
    send(signal);
    expect(calls).toEqual([`stop ${signal}`]);
  });

  test('forces the exit when it is repeated later', () => {
    const { calls, send } = fakeProcess();
    send(signal);
    vi.advanceTimersByTime(SAME_SIGNAL_WINDOW_MS);
    send(signal);
    expect(calls).toEqual([`stop ${signal}`, `force ${signal}`]);
  });

  test('forces the exit when it follows another signal, without a delay', () => {
    const { calls, send } = fakeProcess();
    const other = signal === 'SIGTERM' ? 'SIGINT' : 'SIGTERM';
    send(other);
    send(signal);
    expect(calls).toEqual([`stop ${other}`, `force ${signal}`]);
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
