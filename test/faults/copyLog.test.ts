import { describe, expect, test } from 'vitest';
import { type CopyProgress, copyLog } from '../../packages/event-log/src/copy/copyLog.ts';
import { PLANT_STREAM_PREFIX } from '../../src/plants/stream.ts';
import {
  appendMany,
  contents,
  named,
  openIn,
  overFakeServer,
  restarting,
  startFakeServer,
} from '../support/stores.ts';
import { tempDir } from '../support/tempDir.ts';

describe('a copy', () => {
  test('continues after a restart of the source server, as does its comparison', async () => {
    const fake = await startFakeServer();
    const [from, to] = [await overFakeServer(fake.url), await openIn(tempDir())];
    // More than a subscription buffers.
    for (let i = 0; i < 520; i++) fake.write(`plant-alice/${i}`, named(`plant ${i}`));
    const onProgress = restarting(fake);
    expect(await copyLog({ from, to, onProgress })).toEqual({ events: 520, copied: 520 });
    expect(await contents(to)).toEqual(await contents(from));
  });

  test('and its comparison continue after a restart of the target server', async () => {
    const fake = await startFakeServer();
    const [from, to] = [await openIn(tempDir()), await overFakeServer(fake.url)];
    await appendMany(from, 100);
    const onProgress = restarting(fake);
    expect(await copyLog({ from, to, onProgress })).toEqual({ events: 100, copied: 100 });
    expect(await contents(to)).toEqual(await contents(from));
    expect(fake.log.all.filter(({ stream }) => stream.startsWith(PLANT_STREAM_PREFIX))).toHaveLength(100);
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
