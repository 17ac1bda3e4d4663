import { describe, expect, test } from 'vitest';
import { type CopyProgress, copyLog } from '../../packages/event-log/src/copy/copyLog.ts';
import { appendMany, contents, openIn, overFakeServer, startFakeServer } from '../support/stores.ts';
import { tempDir } from '../support/tempDir.ts';

describe('a copy', () => {
  test.each([
    ['source', 520], // more than a page
    ['target', 100],
  ])('and its comparison continue after a restart of the %s server', async (restarted, events) => {
    const fake = await startFakeServer();
    const [embedded, onServer] = [await openIn(tempDir()), await overFakeServer(fake.url)];
    const [from, to] = restarted === 'source' ? [onServer, embedded] : [embedded, onServer];
    await appendMany(from, events);
    const onProgress = async ({ events }: CopyProgress) => {
      if (events !== 50) return;
      await fake.stop();
      await fake.restart();
    };
    expect(await copyLog({ from, to, onProgress })).toEqual({ events, copied: events });
    expect(await contents(to)).toEqual(await contents(from));
    expect(await contents(from)).toHaveLength(events);
  });

  test('continues after dropped, rejected and timed-out appends', async () => {
    const fake = await startFakeServer();
    const [from, to] = [await openIn(tempDir()), await overFakeServer(fake.url)];
    await appendMany(from, 80);
    const failures = [() => fake.breakAfterStoring(2), () => fake.busy(2), () => fake.timeOut(1)];
    const onProgress = ({ step, events }: CopyProgress) => {
      if (step === 'copying' && events % 20 === 0) failures.shift()?.();
    };
    expect(await copyLog({ from, to, onProgress })).toEqual({ events: 80, copied: 80 });
    expect(failures).toEqual([]);
    expect(await contents(to)).toEqual(await contents(from));
  });
});
