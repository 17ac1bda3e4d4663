import { join } from 'node:path';
import { expect } from 'vitest';
import { PLANT_STREAM_PREFIX } from '../../src/plants/stream.ts';
import { runCli, withoutProgress } from './cli.ts';
import { type Interruption, interrupted } from './interruptions.ts';
import { logWith, rowsIn } from './logs.ts';
import { MAIN, NODE } from './process.ts';
import { startFakeServer } from './stores.ts';

export const commandOf = (from: string, to: string) => [NODE, MAIN, 'copy', '--from', from, '--to', to];

/** Expects that an interrupted copy is resumed, without duplicates and in order. */
export async function expectResumed(...interruptions: Interruption[]): Promise<void> {
  const EVENTS = 300;
  const from = logWith({ events: EVENTS });
  const server = await startFakeServer();
  server.slow(20); // the target is in this process, so no copy completes before the interruption
  const copied = (): string[] =>
    server.log.all.filter(({ stream }) => stream.startsWith(PLANT_STREAM_PREFIX)).map(({ id }) => id);
  for (const how of interruptions)
    await interrupted(how, {
      command: commandOf(from, server.url),
      started: () => {
        const minimum = copied().length + 5;
        return expect.poll(() => copied().length).toBeGreaterThan(minimum);
      },
      bar: /copying .* events/,
      result: /have the same/,
    });
  const before = copied().length;
  expect(before).toBeGreaterThan(0);
  expect(before).toBeLessThan(EVENTS);
  server.slow(0);
  const next = await runCli(['copy', '--from', from, '--to', server.url]);
  expect(withoutProgress(next)).toEqual({
    code: 0,
    stdout: `copied ${EVENTS - before} events: both logs have the same ${EVENTS} events\n`,
    stderr: '',
  });
  expect(copied()).toEqual(rowsIn(join(from, 'log.db')).map(({ id }) => id));
}
