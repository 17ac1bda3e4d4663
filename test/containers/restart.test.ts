import { randomUUID } from 'node:crypto';
import { describe, expect, inject, test } from 'vitest';
import type { PlantCreated } from '../../src/plants/events.ts';
import { everything } from '../eventStore/contract.ts';
import { type Instances, ready, twoInstances, untilAvailable } from '../support/load.ts';
import { openOver } from '../support/stores.ts';

const server = inject('eventStoreDb');

/** Concurrent requests per user. */
const WRITERS = 4;
/** The number of plants created before the restart, and after it. */
const SOME = 200;
// A log in memory does not survive a restart.
const impossible = !server || server.inMemory;

describe.skipIf(impossible)('a restart of the container under load', () => {
  test.each([
    ['after a stop', 30_000],
    ['after a kill', 0],
  ])('%s leaves every acknowledged plant once in the log and in both views', async (_how, grace) => {
    const { url, containerId } = server as NonNullable<typeof server>;
    const instances = await twoInstances(url);
    const run = randomUUID();
    const [alice, bob] = [`alice of ${run}`, `bob of ${run}`];

    const load = startLoad(instances, [alice, bob]);
    await load.grown();
    await restart(containerId, grace);
    await load.grown();
    const acknowledged = await load.stop();

    const created = (await plantsIn(url)).filter(({ user }) => user === alice || user === bob);
    expect(created).toEqual(acknowledged);
    const end = created.at(-1)?.logPosition ?? '';
    for (const instance of instances) {
      await ready(instance);
      expect(instance.log().map(({ msg }) => msg)).toContain('subscription dropped; resubscribing');
      for (const user of [alice, bob]) {
        const response = await untilAvailable(() => instance.as(user).get('', { 'log-position': end }));
        const own = created.filter((plant) => plant.user === user);
        expect(await response.json()).toEqual(own.map(({ name, tag }) => ({ name, tag })));
      }
    }
  });
});

type Created = PlantCreated & { logPosition: string };

/** Users who create plants, and retry each until it is acknowledged, alternating between instances. */
function startLoad(instances: Instances, users: readonly string[]) {
  const acknowledged: Created[] = [];
  let stopping = false;

  async function write(user: string, writer: number): Promise<void> {
    for (let n = writer; !stopping; n += WRITERS) {
      const plant = { name: `${user}'s plant ${n}`, tag: 'indoor' };
      const logPosition = await create(user, n, plant);
      acknowledged.push({ id: `${n}`, user, ...plant, logPosition });
    }
  }

  async function create(user: string, id: number, plant: { name: string; tag: string }): Promise<string> {
    let attempt = id;
    const response = await untilAvailable(() => {
      const { as } = attempt++ % 2 === 0 ? instances[0] : instances[1];
      return as(user).create(id, plant);
    });
    expect([response.status, await response.json()]).toEqual([200, plant]);
    return response.headers.get('log-position') ?? '';
  }

  const writers = Array.from({ length: WRITERS }, (_, writer) => users.map((user) => write(user, writer)));
  const writing = Promise.all(writers.flat());
  return {
    /** Resolves when some more plants are acknowledged; rejects when one is rejected. */
    async grown(): Promise<void> {
      const count = acknowledged.length;
      const more = expect.poll(() => acknowledged.length - count);
      await Promise.race([writing, more.toBeGreaterThanOrEqual(SOME)]);
    },
    /** The acknowledged plants, in log order. */
    async stop(): Promise<Created[]> {
      stopping = true;
      await writing;
      return acknowledged.sort((a, b) => Number(positionIn(a) - positionIn(b)));
    },
  };
}

function positionIn({ logPosition }: Created): bigint {
  return BigInt(logPosition.split('.')[1] ?? '');
}

/** The plants in the log, read from the store. */
async function plantsIn(url: string): Promise<Created[]> {
  const store = await openOver(url);
  const logId = await store.logId();
  const events = await everything(store);
  await store.close();
  return events.map(({ data, position }) => ({
    ...(data as PlantCreated),
    logPosition: `${logId}.${position}`,
  }));
}

async function restart(containerId: string, grace: number): Promise<void> {
  const { getContainerRuntimeClient } = await import('testcontainers'); // slow to load
  const { container } = await getContainerRuntimeClient();
  await container.restart(container.getById(containerId), { timeout: grace });
}
