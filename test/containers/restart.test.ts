import { randomUUID } from 'node:crypto';
import { expect, inject, test } from 'vitest';
import { twoInstances } from '../support/instances.ts';
import { Load } from '../support/load.ts';

const server = inject('eventStoreDb');

/** The number of plants created before the restart, and after it. */
const SOME = 200;
// A log in memory does not survive a restart.
const impossible = !server || server.inMemory;

test.skipIf(impossible).each([
  ['after a stop', 30],
  ['after a kill', 0],
])(
  'a restart of the container under load %s leaves every acknowledged plant once in the log and in both views',
  async (_how, graceSeconds) => {
    const { url, containerId } = server as NonNullable<typeof server>;
    const instances = await twoInstances(url);
    const run = randomUUID(); // the tests share one log
    const load = new Load([`alice of ${run}`, `bob of ${run}`]);
    load.start(...instances);
    await load.more(SOME);
    const { getContainerRuntimeClient } = await import('testcontainers'); // slow to load
    const { container } = await getContainerRuntimeClient();
    await container.getById(containerId).restart({ t: graceSeconds });
    await load.more(SOME);
    await load.stop();
    for (const instance of instances) {
      await load.expectKept(instance);
      expect(instance.log().map(({ msg }) => msg)).toContain('subscription dropped; resubscribing');
    }
  },
);
