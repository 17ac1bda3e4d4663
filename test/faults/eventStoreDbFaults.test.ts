import { expect, onTestFinished, test } from 'vitest';
import { START } from '../../packages/event-log/src/eventStore.ts';
import { overFakeServer, startFakeServer } from '../support/stores.ts';

test('a silent subscription is resubscribed while other writers append', async () => {
  const server = await startFakeServer();
  const store = await overFakeServer(server.url);
  const otherWriter = setInterval(() => server.write('other-1'), 10);
  onTestFinished(() => clearInterval(otherWriter));
  const leaving = new AbortController();
  const found: string[] = [];
  for await (const { events, caughtUp } of store.subscribe({ after: START, signal: leaving.signal })) {
    found.push(...events.map(({ stream }) => stream));
    if (found.length > 0) leaving.abort();
    else if (caughtUp) {
      server.muteSubscriptions();
      const written = server.log.all.length;
      await expect.poll(() => server.log.all.length).toBeGreaterThan(written + 100);
      server.write('plant-alice/1');
    }
  }
  expect(found).toEqual(['plant-alice/1']);
});
