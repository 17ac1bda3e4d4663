import { expect } from 'vitest';
import { untilAvailable } from './instances.ts';
import type { client } from './service.ts';

/** Concurrent requests of each user. */
const CLIENTS_PER_USER = 8;

type Instance = { as: ReturnType<typeof client> };
type Acknowledged = { user: string; id: string; name: string; tag: string; position: string };

/** Users who create plants, each by several clients, which retry a plant until it is acknowledged. */
export class Load {
  /** In the order of the responses. */
  readonly acknowledged: Acknowledged[] = [];
  readonly #users: readonly string[];
  #nextId = 1;
  #isStopping = false;
  #onAcknowledged = () => {};
  #clients: Promise<void>[] = [];

  constructor(users: readonly string[] = ['alice', 'bob']) {
    this.#users = users;
  }

  /** Sends requests to these instances in turn, until it is stopped or a connection breaks. */
  start(...instances: Instance[]): void {
    this.#isStopping = false;
    this.#clients = this.#users.flatMap((user) =>
      Array.from({ length: CLIENTS_PER_USER }, () => this.#create(user, instances)),
    );
  }

  async #create(user: string, instances: Instance[]): Promise<void> {
    while (!this.#isStopping) {
      const id = this.#nextId++;
      const plant = { name: `${user}'s plant ${id}`, tag: 'indoor' };
      let turn = id;
      const response = await untilAvailable(() =>
        (instances[turn++ % instances.length] as Instance).as(user).create(id, plant),
      );
      expect(response.status).toBe(200);
      const [, position = ''] = response.headers.get('log-position')?.split('.') ?? [];
      this.acknowledged.push({ user, id: `${id}`, ...plant, position });
      this.#onAcknowledged();
      expect(await response.json()).toEqual(plant);
    }
  }

  /** Resolves when this number of further plants is acknowledged; rejects if a request fails before. */
  async more(count: number): Promise<void> {
    const enough = this.acknowledged.length + count;
    const grown = Promise.withResolvers<void>();
    this.#onAcknowledged = () => {
      if (this.acknowledged.length >= enough) grown.resolve();
    };
    await Promise.race([grown.promise, ...this.#clients]);
  }

  async stop(): Promise<void> {
    this.#isStopping = true;
    await Promise.all(this.#clients);
  }

  /** Resolves when a kill has broken the connection of every client. */
  async broken(): Promise<void> {
    const ends = await Promise.allSettled(this.#clients);
    for (const { reason } of ends as PromiseRejectedResult[]) expect(reason).toBeInstanceOf(TypeError); // of fetch
  }

  /** Expects that an instance has every acknowledged plant in its log, each once, and lists what the log has. */
  async expectKept({ as }: Instance): Promise<void> {
    const replay = await untilAvailable(() => as('carol', 'audit').request('/events'));
    const events = (await replay.text()).split('\n').filter(Boolean);
    const plants: Acknowledged[] = events
      .map((line) => JSON.parse(line))
      .map(({ position, data: { user, id, name, tag } }) => ({ user, id, name, tag, position }))
      .filter(({ user }) => this.#users.includes(user));
    const kept = new Set(plants.map((plant) => JSON.stringify(plant)));
    expect(this.acknowledged.filter((plant) => !kept.has(JSON.stringify(plant)))).toEqual([]);
    expect(new Set(plants.map(({ id }) => id)).size).toBe(plants.length);
    for (const user of this.#users) {
      const own = plants.filter((plant) => plant.user === user).map(({ name, tag }) => ({ name, tag }));
      expect(own.length).toBeGreaterThan(0);
      await expect.poll(() => as(user).list()).toEqual(own);
    }
  }
}
