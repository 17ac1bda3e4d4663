import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { FakeEventStoreDb } from '../../packages/event-log/src/testing/fakeEventStoreDb/server.ts';
import { PLANT_STREAM_PREFIX } from '../../src/plants/stream.ts';
import { logWith, plantOf, rowsIn, writeTo } from '../support/logs.ts';
import { MAIN, NODE, run, start } from '../support/process.ts';
import { startFakeServer } from '../support/stores.ts';

const commandOf = (from: string, to: string) => [NODE, MAIN, 'copy', '--from', from, '--to', to];
const copy = (from: string, to: string) => run({ command: commandOf(from, to) });

describe('a copy killed at random moments', () => {
  const EVENTS = 3_500;
  /**
   * The number of events that each but the last copies, and its lifetime after them in milliseconds; the same
   * in every run.
   */
  const LIFETIMES = fc.sample(fc.tuple(fc.integer({ min: 1, max: 90 }), fc.integer({ min: 0, max: 5 })), {
    numRuns: 5,
    seed: 2026,
  });

  const complete = {
    code: 0,
    stdout: expect.stringMatching(RegExp(`have the same ${EVENTS} events\n$`)),
  };

  test('is completed in a directory, without duplicates and in order', async () => {
    const server = await startFakeServer();
    writeTo(server, ...Array.from({ length: EVENTS }, (_, i) => plantOf('alice', i + 1, `plant ${i}`)));
    const to = logWith({ events: 0 });
    const idsThere = (): string[] => rowsIn(join(to, 'log.db')).map(({ id }) => id);
    for (const [, lifetime] of LIFETIMES) {
      const before = idsThere().length;
      server.holdAfter(before + 1); // it waits for another page, and cannot complete before it is killed
      const copying = start({ command: commandOf(server.url, to) });
      await expect.poll(() => idsThere().length, { interval: 5 }).toBeGreaterThan(before);
      await pause(lifetime);
      await copying.kill();
      expect((await copying.ended).signal).toBe('SIGKILL');
      expect(idsThere().length).toBeLessThan(EVENTS);
    }
    server.holdAfter(Number.POSITIVE_INFINITY);
    expect(await copy(server.url, to)).toMatchObject(complete);
    expect(idsThere()).toEqual(idsIn(server));
  });
});

const idsIn = ({ log }: FakeEventStoreDb): string[] =>
  log.all.filter(({ stream }) => stream.startsWith(PLANT_STREAM_PREFIX)).map(({ id }) => id);
