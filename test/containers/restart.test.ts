import { randomUUID } from 'node:crypto';
import pino from 'pino';
import { describe, expect, inject, test } from 'vitest';
import { openEventStoreDb } from '../../src/eventStore/eventStoreDb.ts';
import { PLANT_STREAMS, type PlantCreated } from '../../src/plants/plant.ts';
import { everything } from '../eventStore/contract.ts';
import { answered, type Instances, ready, twoInstances } from '../support/load.ts';

const server = inject('eventStoreDb');

/** Plants that each user has on the way at once. */
const WRITERS = 4;
/** So many plants are created before the restart, and after it. */
const SOME = 200;
// A log in memory does not survive.
const impossible = !server || server.inMemory;

describe.skipIf(impossible)('a restart of the container in mid-load', () => {
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
      expect(instance.log().map(({ msg }) => msg)).toContain(
        'EventStoreDB has dropped the subscription: subscribing again',
      );
      for (const user of [alice, bob]) {
        const answer = await answered(() => instance.as(user).get('', { 'log-position': end }));
        const own = created.filter((plant) => plant.user === user);
        expect(await answer.json()).toEqual(own.map(({ name, tag }) => ({ name, tag })));
      }
    }
  });
});

type Created = PlantCreated & { logPosition: string };

/** Users who create plants, each until it is acknowledged, by the one instance or by the other. */
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
    const answer = await answered(() => {
      const { as } = attempt++ % 2 === 0 ? instances[0] : instances[1];
      return as(user).create(id, plant);
    });
    expect([answer.status, await answer.json()]).toEqual([200, plant]);
    return answer.headers.get('log-position') ?? '';
  }

  const writers = Array.from({ length: WRITERS }, (_, writer) => users.map((user) => write(user, writer)));
  const writing = Promise.all(writers.flat());
  return {
    /** Resolves once some more plants are acknowledged; rejects when one is refused. */
    async grown(): Promise<void> {
      const count = acknowledged.length;
      const more = expect.poll(() => acknowledged.length - count);
      await Promise.race([writing, more.toBeGreaterThanOrEqual(SOME)]);
    },
    /** What has been acknowledged, in log order. */
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

/** What the log holds, by the store's own account. */
async function plantsIn(url: string): Promise<Created[]> {
  const store = await openEventStoreDb({ url, prefix: PLANT_STREAMS, log: pino({ level: 'silent' }) });
  const mark = await store.mark();
  const events = await everything(store);
  await store.close();
  return events.map(({ data, position }) => ({
    ...(data as PlantCreated),
    logPosition: `${mark}.${position}`,
  }));
}

async function restart(containerId: string, grace: number): Promise<void> {
  const { getContainerRuntimeClient } = await import('testcontainers'); // takes its time
  const { container } = await getContainerRuntimeClient();
  await container.restart(container.getById(containerId), { timeout: grace });
}
