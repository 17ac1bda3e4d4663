import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { logWith, plantOf, rowsIn, writeTo } from '@event-sourced/testing/logs';
import { startFakeServer } from '@event-sourced/testing/stores';
import { expect, test } from 'vitest';
import { MAIN, NODE, run, start } from '../support/process.ts';

const EVENTS = 3_500;
/** The lifetime of each copy after its first event, in milliseconds. */
const LIFETIMES_MS = [0, 5, 1, 3, 2];

test('a copy killed at various moments is completed in a directory, without duplicates and in order', async () => {
  const server = await startFakeServer();
  const written = writeTo(
    server,
    ...Array.from({ length: EVENTS }, (_, i) => plantOf('alice', i + 1, `plant ${i}`)),
  );
  const to = logWith({ events: 0 });
  const idsThere = (): string[] => rowsIn(join(to, 'log.db')).map(({ id }) => id);
  const command = [NODE, MAIN, 'copy', '--from', server.url, '--to', to];
  for (const lifetime of LIFETIMES_MS) {
    const before = idsThere().length;
    server.holdAfter(before + 1); // it waits for another page, and cannot complete before it is killed
    const copying = start({ command });
    await expect.poll(() => idsThere().length, { interval: 5 }).toBeGreaterThan(before);
    await pause(lifetime);
    await copying.kill();
    expect((await copying.ended).signal).toBe('SIGKILL');
    expect(idsThere().length).toBeLessThan(EVENTS);
  }
  server.holdAfter(Number.POSITIVE_INFINITY);
  const { code, stdout } = await run({ command });
  expect(code).toBe(0);
  expect(stdout).toMatch(RegExp(`have the same ${EVENTS} events\n$`));
  expect(idsThere()).toEqual(written.map(({ id }) => id));
});
