import { describe, expect, inject, test } from 'vitest';
import { ContainerLoad, containerWith } from '../support/containerLoad.ts';
import { twoInstances } from '../support/instances.ts';

const server = inject('eventStoreDb');

/** The number of plants created before the restart, and after it. */
const SOME = 200;
// A log in memory does not survive a restart.
const impossible = !server || server.inMemory;

describe.skipIf(impossible)('a restart of the container under load', () => {
  test.each([
    ['after a stop', 30],
    ['after a kill', 0],
  ])('%s leaves every acknowledged plant once in the log and in both views', async (_how, graceSeconds) => {
    const { url, containerId } = server as NonNullable<typeof server>;
    const instances = await twoInstances(url);
    const load = new ContainerLoad({ instances, url });
    await load.more(SOME);
    await (await containerWith(containerId)).restart({ t: graceSeconds });
    await load.more(SOME);
    await load.expectConsistent();
    for (const instance of instances)
      expect(instance.log().map(({ msg }) => msg)).toContain('subscription dropped; resubscribing');
  });
});
