import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { PLANT_STREAMS } from '../../src/plants/plant.ts';
import { startDouble } from '../copy/logs.ts';
import type { EventStoreDbDouble } from '../support/eventStoreDbDouble.ts';
import { commandOf, expectResumed } from '../support/interruptedCopy.ts';
import { hasTerminal } from '../support/interruptions.ts';
import { logWith, plantOf, rowsIn, writeTo } from '../support/logs.ts';
import { run, start } from '../support/process.ts';

const copy = (from: string, to: string) => run({ command: commandOf(from, to) });

describe('a copy killed at random moments', () => {
  const EVENTS = 700;
  /** How many events each but the last may copy, and how long it then still lives: the same in every run. */
  const LIVES = fc.sample(fc.tuple(fc.integer({ min: 1, max: 90 }), fc.integer({ min: 0, max: 5 })), {
    numRuns: 5,
    seed: 2026,
  });

  const complete = {
    code: 0,
    stdout: expect.stringMatching(RegExp(`hold the same ${EVENTS} events\n$`)),
  };

  test('ends complete in EventStoreDB, without duplicates and in order', async () => {
    const from = logWith({ events: EVENTS });
    const double = await startDouble();
    double.slow(5); // so that none comes to its end before it is killed: what it copies passes through this process
    for (const [events, life] of LIVES) {
      const copying = start({ command: commandOf(from, double.url) });
      const least = idsIn(double).length + events;
      await expect.poll(() => idsIn(double).length, { interval: 5 }).toBeGreaterThanOrEqual(least);
      await pause(life);
      await copying.kill();
      expect((await copying.ended).signal).toBe('SIGKILL');
      expect(idsIn(double).length).toBeLessThan(EVENTS);
    }
    double.slow(0);
    expect(await copy(from, double.url)).toMatchObject(complete);
    expect(idsIn(double)).toEqual(rowsIn(join(from, 'log.db')).map(({ id }) => id));
  });

  test('ends complete in a directory, without duplicates and in order', async () => {
    const double = await startDouble();
    writeTo(double, ...Array.from({ length: EVENTS }, (_, i) => plantOf('alice', i + 1, `plant ${i}`)));
    const to = logWith({ events: 0 });
    const idsThere = (): string[] => rowsIn(join(to, 'log.db')).map(({ id }) => id);
    for (const [events, life] of LIVES) {
      const before = idsThere().length;
      double.holdAfter(before + events); // it waits for more, and cannot come to its end before it is killed
      const copying = start({ command: commandOf(double.url, to) });
      await expect.poll(() => idsThere().length, { interval: 5 }).toBeGreaterThan(before);
      await pause(life);
      await copying.kill();
      expect((await copying.ended).signal).toBe('SIGKILL');
      expect(idsThere().length).toBeLessThan(EVENTS);
    }
    double.holdAfter(Number.POSITIVE_INFINITY);
    expect(await copy(double.url, to)).toMatchObject(complete);
    expect(idsThere()).toEqual(idsIn(double));
  });
});

const idsIn = ({ log }: EventStoreDbDouble): string[] =>
  log.all.filter(({ stream }) => stream.startsWith(PLANT_STREAMS)).map(({ id }) => id);

test('copies that are ended by a signal, by Ctrl-C on a terminal and by a kill are gone on with, without duplicates and in order', () =>
  expectResumed('SIGTERM', ...(hasTerminal ? ['Ctrl-C' as const] : []), 'SIGKILL'));
