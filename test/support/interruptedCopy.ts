import { join } from 'node:path';
import { expect } from 'vitest';
import { PLANT_STREAMS } from '../../src/plants/plant.ts';
import { typed, withoutProgress } from '../commands/typed.ts';
import { startDouble } from '../copy/logs.ts';
import { type Interruption, interrupted } from './interruptions.ts';
import { logWith, rowsIn } from './logs.ts';
import { MAIN, NODE } from './process.ts';

export const commandOf = (from: string, to: string) => [NODE, MAIN, 'copy', '--from', from, '--to', to];

/** A copy that is interrupted is gone on with, without duplicates and in order. */
export async function expectResumed(...ways: Interruption[]): Promise<void> {
  const EVENTS = 300;
  const from = logWith({ events: EVENTS });
  const double = await startDouble();
  double.slow(20); // what is copied passes through this process: no copy comes to its end before it acts
  const copied = (): string[] =>
    double.log.all.filter(({ stream }) => stream.startsWith(PLANT_STREAMS)).map(({ id }) => id);
  for (const how of ways)
    await interrupted(how, {
      command: commandOf(from, double.url),
      begun: () => {
        const least = copied().length + 5;
        return expect.poll(() => copied().length).toBeGreaterThan(least);
      },
      bar: /copying .* events/,
      result: /hold the same/,
    });
  const before = copied().length;
  expect(before).toBeGreaterThan(0);
  expect(before).toBeLessThan(EVENTS);
  double.slow(0);
  const next = await typed(['copy', '--from', from, '--to', double.url]);
  expect(withoutProgress(next)).toEqual({
    code: 0,
    stdout: `copied ${EVENTS - before} events: both sides hold the same ${EVENTS} events\n`,
    stderr: '',
  });
  expect(copied()).toEqual(rowsIn(join(from, 'log.db')).map(({ id }) => id));
}
