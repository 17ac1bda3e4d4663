import { randomUUID } from 'node:crypto';
import { expect } from 'vitest';
import { everything } from '../../packages/event-log/src/testing/contract.ts';
import type { PlantCreated } from '../../src/plants/events.ts';
import { type Instances, ready, untilAvailable } from './instances.ts';
import { openOver } from './stores.ts';

/** Concurrent requests per user. */
const WRITERS = 4;

type Created = PlantCreated & { logPosition: string };
type Options = {
  instances: Instances;
  /** The connection string of their event store. */
  url: string;
};

/**
 * Two new users who create plants over an EventStoreDB that other tests may use, too, and retry each until it
 * is acknowledged, alternating between instances.
 */
export class ContainerLoad {
  readonly acknowledged: Created[] = [];
  readonly #options: Options;
  readonly #users: readonly string[];
  readonly #writing: Promise<unknown>;
  #stopping = false;

  constructor(options: Options) {
    this.#options = options;
    const run = randomUUID();
    this.#users = [`alice of ${run}`, `bob of ${run}`];
    const writers = Array.from({ length: WRITERS }, (_, i) =>
      this.#users.map((user) => this.#write(user, i)),
    );
    this.#writing = Promise.all(writers.flat());
  }

  async #write(user: string, writer: number): Promise<void> {
    for (let id = writer; !this.#stopping; id += WRITERS) {
      const plant = { name: `${user}'s plant ${id}`, tag: 'indoor' };
      let attempt = id;
      const response = await untilAvailable(() =>
        this.#options.instances[attempt++ % 2 === 0 ? 0 : 1].as(user).create(id, plant),
      );
      expect([response.status, await response.json()]).toEqual([200, plant]);
      const logPosition = response.headers.get('log-position') ?? '';
      this.acknowledged.push({ id: `${id}`, user, ...plant, logPosition });
    }
  }

  /** Resolves when this number of further plants is acknowledged; rejects when one is rejected. */
  async more(count: number): Promise<void> {
    const enough = this.acknowledged.length + count;
    const grown = expect.poll(() => this.acknowledged.length);
    await Promise.race([this.#writing, grown.toBeGreaterThanOrEqual(enough)]);
  }

  /** Stops the load; expects each acknowledged plant once, in the log and in the views of all instances. */
  async expectConsistent(): Promise<void> {
    const { instances, url } = this.#options;
    this.#stopping = true;
    await this.#writing;
    const acknowledged = this.acknowledged.toSorted(byPosition);
    const created = (await plantsIn(url)).filter(({ user }) => this.#users.includes(user));
    expect(created).toEqual(acknowledged);
    const end = created.at(-1)?.logPosition ?? '';
    for (const instance of instances) {
      await ready(instance);
      for (const user of this.#users) {
        const response = await untilAvailable(() => instance.as(user).get('', { 'log-position': end }));
        const own = created.filter((plant) => plant.user === user);
        expect(await response.json()).toEqual(own.map(({ name, tag }) => ({ name, tag })));
      }
    }
  }
}

const positionIn = ({ logPosition }: Created): bigint => BigInt(logPosition.split('.')[1] ?? '');

const byPosition = (a: Created, b: Created): number => Number(positionIn(a) - positionIn(b));

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

/** The container with this ID, as Docker's client has it. */
export async function containerWith(id: string) {
  const { getContainerRuntimeClient } = await import('testcontainers'); // slow to load
  const { container } = await getContainerRuntimeClient();
  return container.getById(id);
}
