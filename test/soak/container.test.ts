import { expect, inject, test } from 'vitest';
import { byPosition, ContainerLoad, containerWith, positionIn } from '../support/containerLoad.ts';
import { auditorToken, listen } from '../support/eventStream.ts';
import { heap, mayUse } from '../support/heap.ts';
import { resourcesInUse, twoInstances } from '../support/instances.ts';

const server = inject('eventStoreDb');

/** The number of rounds of all faults, half a minute each: SOAK_ROUNDS=20 npm run test:soak. */
const rounds = Number(process.env.SOAK_ROUNDS ?? 2);
/** The timeout of a round. */
const ROUND_TIMEOUT_MS = 30 * 60_000;
/** The number of plants created between two faults. */
const SOME = 300;

// A log in memory does not survive a restart.
test.skipIf(!server || server.inMemory)(
  `two instances and an auditor survive ${rounds} rounds of kills, freezes and stops of EventStoreDB`,
  async () => {
    const { url, containerId } = server as NonNullable<typeof server>;
    const container = await containerWith(containerId);
    const instances = await twoInstances(url);
    const auditor = listen(instances[0].url, { token: await auditorToken(instances[0].keys) });
    await auditor.opened;
    const load = new ContainerLoad({ instances, url, pauseMs: 50 });
    await load.more(SOME);
    const { expectNoMore } = resourcesInUse();
    const heapBefore = heap();

    const faults = {
      kill: () => container.restart({ t: 0 }),
      freeze: async () => {
        await container.pause();
        await load.refusedEverywhere();
        await container.unpause();
      },
      stop: () => container.restart({ t: 30 }),
    };
    for (let round = 0; round < rounds; round++)
      for (const inject of Object.values(faults)) {
        await inject();
        await load.more(SOME);
      }

    await load.expectConsistent();
    const { acknowledged } = load;
    const received = (await auditor.first(acknowledged.length)).map(({ id }) => id);
    expect(received).toEqual(acknowledged.toSorted(byPosition).map((plant) => `${positionIn(plant)}`));
    await expectNoMore();
    const growth = heap() - heapBefore;
    console.info(
      `${rounds * 3} faults, ${acknowledged.length} plants, ${load.refused} times 503, the auditor has ` +
        `reconnected ${auditor.failures.length} times, the heap has grown by ${Math.round(growth / 1_024)} KiB`,
    );
    expect(growth).toBeLessThan(mayUse(acknowledged.length));
  },
  rounds * ROUND_TIMEOUT_MS,
);
