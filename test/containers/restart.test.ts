import { randomUUID } from 'node:crypto';
import { describe, expect, inject, test } from 'vitest';
import { everything } from '../../packages/event-log/src/testing/contract.ts';
import type { PlantCreated } from '../../src/plants/events.ts';
import { listed } from '../support/eventStoreDbService.ts';
import { twoInstances, untilAvailable } from '../support/instances.ts';
import { overFakeServer as openLog } from '../support/stores.ts';

const server = inject('eventStoreDb');

/** The number of plants created before the restart, and after it. */
const SOME = 200;
/** Concurrent requests. */
const WRITERS = 8;
// A log in memory does not survive a restart.
const impossible = !server || server.inMemory;

describe.skipIf(impossible)('a restart of the container under load', () => {
  test.each([
    ['after a stop', 30],
    ['after a kill', 0],
  ])('%s leaves every acknowledged plant once in the log and in both views', async (_how, graceSeconds) => {
    const { url, containerId } = server as NonNullable<typeof server>;
    const instances = await twoInstances(url);
    const run = randomUUID(); // other tests use the same log
    const users = [`alice of ${run}`, `bob of ${run}`];
    const acknowledged: string[] = [];
    let isOver = false;
    /** Creates plants at both instances in turn, and retries each until it is acknowledged. */
    const write = async (writer: number): Promise<void> => {
      const user = users[writer % 2] as string;
      for (let id = writer; !isOver; id += WRITERS) {
        let attempt = id;
        const create = () =>
          (attempt++ % 2 === 0 ? instances[0] : instances[1]).as(user).create(id, { name: `plant ${id}` });
        expect((await untilAvailable(create)).status).toBe(200);
        acknowledged.push(`plant ${id}`);
      }
    };
    const writing = Promise.all(Array.from({ length: WRITERS }, (_, writer) => write(writer)));
    const more = async (count: number) => {
      const grown = expect.poll(() => acknowledged.length);
      await Promise.race([writing, grown.toBeGreaterThanOrEqual(acknowledged.length + count)]);
    };
    await more(SOME);
    await restart(containerId, graceSeconds);
    await more(SOME);
    isOver = true;
    await writing;

    const store = await openLog(url);
    const plants = (await everything(store)).map(({ data }) => data as PlantCreated);
    const created = plants.filter(({ user }) => users.includes(user));
    expect(created.map(({ name }) => name).sort()).toEqual(acknowledged.sort());
    const headers = { 'log-position': `${await store.logId()}.${await store.lastPosition()}` };
    for (const instance of instances) {
      for (const user of users) {
        const { get } = instance.as(user);
        const own = created.filter((plant) => plant.user === user).map(({ name }) => ({ name }));
        expect(await listed({ get: () => get('', headers) })).toEqual(own);
      }
      expect(instance.log().map(({ msg }) => msg)).toContain('subscription dropped; resubscribing');
    }
  });
});

async function restart(containerId: string, graceSeconds: number): Promise<void> {
  const { getContainerRuntimeClient } = await import('testcontainers'); // slow to load
  const { container } = await getContainerRuntimeClient();
  await container.getById(containerId).restart({ t: graceSeconds });
}
