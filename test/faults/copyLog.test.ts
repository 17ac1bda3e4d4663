import { describe, expect, test } from 'vitest';
import { type CopyProgress, copyLog } from '../../src/copy/copyLog.ts';
import {
  contents,
  named,
  openedUntilFinished,
  openIn,
  plantMany,
  refusal,
  restarting,
  startDouble,
} from '../copy/logs.ts';
import { untilSettled } from '../support/clock.ts';
import { slowClock } from '../support/slowClock.ts';
import { tempDir } from '../support/tempDir.ts';

describe('a server', () => {
  test('that is restarted in the midst of a copy from it, and of the comparison, does not matter', async () => {
    const double = await startDouble();
    const [from, to] = [await openedUntilFinished(double.url), await openIn(tempDir())];
    // More than a subscription holds ready.
    for (let i = 0; i < 520; i++) double.write(`plant-alice/${i}`, named(`plant ${i}`));
    const onProgress = restarting(double);
    expect(await copyLog({ from, to, onProgress })).toEqual({ events: 520, copied: 520 });
    expect(await contents(to)).toEqual(await contents(from));
  });

  test('that drops, refuses and forgets to answer does not matter', async () => {
    const double = await startDouble();
    const [from, to] = [await openIn(tempDir()), await openedUntilFinished(double.url)];
    await plantMany(from, 80);
    const trouble = [() => double.breakAfterStoring(2), () => double.busy(2), () => double.timeOut(1)];
    const onProgress = ({ step, events }: CopyProgress) => {
      if (step === 'copying' && events % 20 === 0) trouble.shift()?.();
    };
    expect(await copyLog({ from, to, onProgress })).toEqual({ events: 80, copied: 80 });
    expect(trouble).toEqual([]);
    expect(await contents(to)).toEqual(await contents(from));
  });

  test('that is not there is told of, whichever side it is', async () => {
    slowClock();
    const there = await openIn(tempDir());
    const away = await openedUntilFinished('esdb://127.0.0.1:1?tls=false');
    for (const [sides, name] of [
      [{ from: away, to: there }, 'the source'],
      [{ from: there, to: away }, 'the target'],
    ] as const) {
      const [message] = await untilSettled(refusal(copyLog(sides)));
      expect(message).toMatch(RegExp(`^${name} cannot be reached: .`));
    }
  });

  test('that goes away for good ends a copy to it', async () => {
    slowClock();
    const double = await startDouble();
    const [from, to] = [await openIn(tempDir()), await openedUntilFinished(double.url)];
    await plantMany(from, 110);
    const gone = Promise.withResolvers<void>();
    const onProgress = ({ events }: CopyProgress) => {
      if (events === 100) double.stop().then(gone.resolve);
    };
    const message = refusal(copyLog({ from, to, onProgress }));
    await gone.promise;
    expect((await untilSettled(message))[0]).toMatch(
      /^the event at position 10\d of the source cannot be copied: ./,
    );
  });

  test('that goes away for good ends a copy from it', async () => {
    slowClock();
    const double = await startDouble();
    const [from, to] = [await openedUntilFinished(double.url), await openIn(tempDir())];
    for (let i = 0; i < 2_000; i++) double.write(`plant-alice/${i}`, { metadata: {} });
    const gone = Promise.withResolvers<void>();
    const onProgress = ({ events }: CopyProgress) => {
      if (events === 1) double.muteSubscriptions();
      if (events === 2) double.stop().then(gone.resolve);
    };
    const message = refusal(copyLog({ from, to, onProgress }));
    await gone.promise;
    expect((await untilSettled(message))[0]).toMatch(/^the source cannot be reached: ./);
  });
});
