import { stopClock } from '@event-sourced/testing/clock';
import { expect, test, vi } from 'vitest';
import { rejectionLogger } from '../src/rejectionLogger.ts';

test('requests that are rejected for the same reason share one line per second, with their count', () => {
  stopClock();
  const lines: unknown[] = [];
  const logger = { error: (line: unknown) => void lines.push(line) };
  const log = rejectionLogger();
  const full = { logger, error: 50301, reason: 'the disk is full' };
  const behind = { logger, error: 50302, reason: 'the view is behind' };
  const line = ({ error, reason }: typeof full, requests: number) => ({ error, reason, requests });

  for (let i = 0; i < 10; i++) log(full);
  log(behind);
  expect(lines).toEqual([line(full, 1), line(behind, 1)]);
  vi.advanceTimersByTime(999);
  expect(lines).toHaveLength(2);
  vi.advanceTimersByTime(1);
  expect(lines.slice(2)).toEqual([line(full, 9)]);
  const damaged = { ...full, reason: 'the log is damaged' };
  for (let i = 0; i < 4; i++) log(full);
  log(damaged);
  expect(lines).toHaveLength(3);
  vi.advanceTimersByTime(1_000);
  expect(lines.slice(3)).toEqual([line(damaged, 5)]);
  vi.advanceTimersByTime(10_000);
  expect(lines).toHaveLength(4);
  log(full);
  expect(lines.slice(4)).toEqual([line(full, 1)]);
});
