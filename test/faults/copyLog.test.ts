import { appendMany, contents, openIn, overFakeServer, startFakeServer } from '@event-sourced/testing/stores';
import { tempDir } from '@event-sourced/testing/tempDir';
import { expect, test } from 'vitest';
import { type CopyProgress, copyLog } from '../../packages/event-log/src/copy/copyLog.ts';

test.each([
  ['source', 520], // more than a page
  ['target', 100],
])('a copy and its comparison continue after a restart of the %s server', async (restarted, events) => {
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
