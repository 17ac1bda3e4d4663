import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { status } from '@grpc/grpc-js';
import { expect, onTestFinished } from 'vitest';
import type { DoubleLog, EventStoreDbDouble } from './eventStoreDbDouble.ts';
import { client, type Plant, startService } from './service.ts';
import { tempDir } from './tempDir.ts';

export const USERS = ['alice', 'bob'] as const;

/** Where a 503 is answered, the request is repeated after this, in milliseconds. */
const RETRY_AFTER = 100;
/** By then every request has been answered as it should be, in milliseconds; the faults last a few seconds. */
const PATIENCE = 20_000;
/** By then everything that was asked for during a fault is done, in milliseconds. */
const SECONDS = 10_000;

/** Two instances over one log, ready: a data directory each, one key. The second gives up sooner. */
export async function twoInstances(url: string, urlOfSecond = url): Promise<Instances> {
  const keys = tempDir();
  const KEY_FILE = join(keys, 'key.json');
  const started = await Promise.all([
    startService({ KEY_FILE, EVENTSTOREDB_URL: url }),
    startService({ KEY_FILE, EVENTSTOREDB_URL: urlOfSecond, EVENTSTOREDB_TIMEOUT: '2' }),
  ]);
  const [first, second] = started.map((service) => ({ ...service, as: client(service.url, keys) }));
  const instances = [first, second] as [Instance, Instance];
  for (const instance of instances) await ready(instance);
  return instances;
}

type Instance = Awaited<ReturnType<typeof startService>>;
export type Instances = Readonly<[Instance, Instance]>;

export async function ready({ url }: { url: string }): Promise<void> {
  const status = async () => (await fetch(`${url}/health/ready`)).status;
  await expect.poll(status, { timeout: 5_000 }).toBe(200);
}

/** What the log says of each user's plants, from its events alone. */
export class Fold {
  readonly #log: DoubleLog;
  readonly #plants = new Map<string, { position: bigint; plant: Plant }[]>();
  #folded = 0;

  constructor(log: DoubleLog) {
    this.#log = log;
  }

  /** The plants of a user, oldest first, up to a position. */
  plantsOf(user: string, upTo?: bigint): Plant[] {
    for (const event of this.#log.all.slice(this.#folded)) {
      this.#folded++;
      if (event.type !== 'PlantCreated') continue;
      const { id: _, user: of, ...plant } = JSON.parse(Buffer.from(event.data).toString());
      const plants = this.#plants.get(of) ?? [];
      plants.push({ position: event.position, plant });
      this.#plants.set(of, plants);
    }
    const plants = this.#plants.get(user) ?? [];
    return plants.filter(({ position }) => upTo === undefined || position <= upTo).map(({ plant }) => plant);
  }
}

type Options = {
  instances: Instances;
  log: DoubleLog;
  /** What each of the writers rests after a plant, in milliseconds. */
  rest?: number;
};

/** Requests that each user has in flight at each instance. */
const WRITERS = 3;

/**
 * Two users who create plants through both instances, some twice and some at both at once, each until it is
 * acknowledged. In between they list them on the other instance, up to where they know that they are.
 */
export class Load {
  /** Each plant by its stream, with the position that was acknowledged. */
  readonly acknowledged = new Map<string, Plant & { position: bigint }>();
  /** Whatever a client must never see. */
  readonly complaints: string[] = [];
  /** How often a request was answered with 503. */
  refused = 0;
  /** The last position acknowledged, as a client knows it. */
  end = '';
  readonly #fold: Fold;
  readonly #rest: number;
  readonly #nextId = new Map<string, number>();
  readonly #writing: Promise<unknown>;
  #stopping = false;

  constructor({ instances, log, rest = 5 }: Options) {
    const [first, second] = instances;
    this.#fold = new Fold(log);
    this.#rest = rest;
    this.#writing = Promise.all(
      USERS.flatMap((user) =>
        Array.from({ length: WRITERS }, () => [
          this.#write(user, first, second),
          this.#write(user, second, first),
        ]).flat(),
      ),
    );
  }

  /** Resolves once everything that was asked for is acknowledged. */
  async stop(): Promise<void> {
    this.#stopping = true;
    await this.#writing;
  }

  async #write(user: string, here: Instance, there: Instance): Promise<void> {
    while (!this.#stopping) {
      const id = (this.#nextId.get(user) ?? 0) + 1;
      this.#nextId.set(user, id);
      try {
        const position = await this.#create(user, id, here, there);
        if (id % 4 === 0) await this.#list(user, there, position);
      } catch (error) {
        this.complaints.push(`plant ${id} of ${user}: ${error}`);
      }
      await pause(this.#rest);
    }
  }

  async #create(user: string, id: number, here: Instance, there: Instance): Promise<string> {
    const plant = { name: `${user}'s plant ${id}`, ...(id % 2 === 0 ? { tag: 'indoor' } : {}) };
    const createAt = async ({ as }: Instance): Promise<string> => {
      const answer = await this.#persist(() => as(user).create(id, plant), 50301);
      this.#expectSame(await answer.json(), plant, `the answer about plant ${id} of ${user}`);
      return answer.headers.get('log-position') ?? '';
    };
    const [position = '', ...others] = await Promise.all(
      (id % 5 === 0 ? [here, there] : [here]).map(createAt), // some at both instances at once
    );
    if (id % 5 === 1) others.push(await createAt(there)); // and some twice
    for (const other of others) this.#expectSame(other, position, `the position of plant ${id} of ${user}`);
    this.acknowledged.set(`plant-${user}/${id}`, { position: positionIn(position), ...plant });
    if (this.end === '' || positionIn(position) > positionIn(this.end)) this.end = position;
    return position;
  }

  /** The list has to be what the log says up to the position that the answer names, and not an earlier one. */
  async #list(user: string, { as }: Instance, position: string): Promise<void> {
    const headers = { 'log-position': position };
    const answer = await this.#persist(() => as(user).get('', headers), 50301, 50302);
    const upTo = positionIn(answer.headers.get('log-position') ?? '');
    if (upTo < positionIn(position)) this.complaints.push(`a list up to ${upTo} instead of ${position}`);
    this.#expectSame(await answer.json(), this.#fold.plantsOf(user, upTo), `the list of ${user}`);
  }

  async #persist(request: () => Promise<Response>, ...refusals: number[]): Promise<Response> {
    const until = performance.now() + PATIENCE;
    for (;;) {
      const answer = await request();
      if (answer.status === 200) return answer;
      const { error, message } = (await answer.json()) as { error: number; message: string };
      const late = performance.now() > until ? 'still ' : '';
      if (late || !refusals.includes(error)) throw new Error(`${late}refused with ${error}: ${message}`);
      this.refused++;
      await pause(RETRY_AFTER);
    }
  }

  #expectSame(found: unknown, expected: unknown, what: string): void {
    const [is, shouldBe] = [JSON.stringify(found), JSON.stringify(expected)];
    if (is !== shouldBe) this.complaints.push(`${what} is ${is} instead of ${shouldBe}`);
  }
}

/** More is asked for than before a fault, and all of it is answered within seconds. */
export async function expectRecovery(load: Load): Promise<void> {
  const since = performance.now();
  const before = load.acknowledged.size;
  await expect.poll(() => load.acknowledged.size, { timeout: SECONDS }).toBeGreaterThan(before + 20);
  await load.stop();
  expect(performance.now() - since).toBeLessThan(SECONDS);
}

/** Whether log and views are as they would be if nothing had happened, and nothing is left over at the nodes. */
export async function expectUnharmed(
  load: Load,
  { instances, nodes }: { instances: Instances; nodes: EventStoreDbDouble[] },
): Promise<void> {
  expect(load.complaints).toEqual([]);
  const [{ log }] = nodes as [EventStoreDbDouble];
  const created = log.all.filter(({ stream }) => stream.startsWith('plant-'));
  expect(created.length).toBe(load.acknowledged.size);
  for (const { stream, position, data } of created) {
    const { name, tag } = JSON.parse(Buffer.from(data).toString());
    expect({ position, name, tag }).toEqual(load.acknowledged.get(stream));
  }
  const fold = new Fold(log);
  for (const instance of instances) {
    await ready(instance);
    for (const user of USERS) {
      const answer = await instance.as(user).get('', { 'log-position': load.end });
      expect(await answer.json()).toEqual(fold.plantsOf(user));
    }
  }
  const total = (count: (node: EventStoreDbDouble) => number) =>
    nodes.reduce((sum, node) => sum + count(node), 0);
  const open = () => ({
    subscriptions: total((node) => node.openSubscriptions),
    reads: total((node) => node.openReads),
    batchesOfEach: Math.ceil(total((node) => node.openBatches) / instances.length),
  });
  await expect.poll(open, { timeout: 5_000 }).toEqual({ subscriptions: 2, reads: 0, batchesOfEach: 1 });
}

/** What this process has that could leak, listeners of its own and threads, and the warnings that it gives. */
export function belongings() {
  const warnings: string[] = [];
  const warn = ({ name, message }: Error) => void warnings.push(`${name}: ${message}`);
  process.on('warning', warn);
  onTestFinished(() => void process.off('warning', warn));
  const threads = () => (existsSync('/proc/self/task') ? readdirSync('/proc/self/task').length : 0);
  const threadsBefore = threads();
  const listenersBefore = new Map(process.eventNames().map((name) => [name, process.listenerCount(name)]));
  const more = () => ({
    threads: Math.max(0, threads() - threadsBefore),
    listeners: process
      .eventNames()
      .filter((name) => process.listenerCount(name) > (listenersBefore.get(name) ?? 0)),
    warnings,
  });
  return {
    expectNoMore: () =>
      expect.poll(more, { timeout: 5_000 }).toEqual({ threads: 0, listeners: [], warnings: [] }),
  };
}

/** The place in the log in a `Log-Position`. */
function positionIn(text: string): bigint {
  return BigInt(text.split('.').at(-1) ?? '');
}

/** A process that stands still for so long is given up, and comes back, in milliseconds. */
const STANDSTILL = 4_000;
/** What an append says that comes while the client is closing the channel: it may be heard before the reason for that. */
const CLOSED = 'Channel closed before call started';
/** Pino's levels. */
const INFO = 30;
const WARN = 40;

/** What may go wrong with a server, and what the service says of it. */
export type Fault = {
  what: string;
  inject: (server: EventStoreDbDouble) => unknown;
  heal?: (server: EventStoreDbDouble) => unknown;
  /** In milliseconds; a second or so where it is absent. */
  lasts?: number;
  /** What each instance says of it, once; where it is absent, it says something as often as it subscribes again. */
  says?: { level: number; reason: RegExp } | 'nothing';
};

export const FAULTS: readonly Fault[] = [
  {
    what: 'a server that is gone for a second',
    inject: (server) => server.stop(),
    heal: (server) => server.restart(),
    says: { level: WARN, reason: RegExp(`ECONNRESET|Connection dropped|${CLOSED}`) },
  },
  { what: 'answers that are lost after the plant was stored', inject: (server) => server.loseAnswers(8) },
  { what: 'calls that break after the plant was stored', inject: (server) => server.breakAfterStoring(4) },
  {
    what: 'a server that has stored a plant and says that it ran out of time',
    inject: (server) => server.timeOut(20),
    says: 'nothing',
  },
  {
    what: 'a server that stands still for seconds',
    inject: (server) => server.freeze(),
    heal: (server) => server.thaw(),
    lasts: STANDSTILL,
    says: { level: WARN, reason: /^no answer for \d+ ms$/ },
  },
  {
    what: 'a server that is slow',
    inject: (server) => server.slow(200),
    heal: (server) => server.slow(0),
    says: 'nothing',
  },
  { what: 'a server that is busy', inject: (server) => server.busy(50), says: 'nothing' },
  { what: 'a server that leads no more', inject: (server) => server.notLeader(20) },
  {
    what: 'appends that end with an internal error',
    inject: (server) => server.failAppends(4, status.INTERNAL),
  },
  {
    what: 'an internal error at the first append of a client, which poisons it',
    inject: (server) => {
      server.failFeatures(2);
      server.failAppends(2, status.INTERNAL); // so that there are new clients
    },
  },
  {
    what: 'a subscription that just ends',
    inject: (server) => server.dropSubscriptions('end'),
    says: { level: INFO, reason: /^the server ended it$/ },
  },
  {
    what: 'a subscription that was too slow for the server',
    inject: (server) => server.dropSubscriptions('slow'),
    says: { level: INFO, reason: /Consumer too slow/ },
  },
  {
    what: 'a subscription that is cancelled',
    inject: (server) => server.dropSubscriptions('cancelled'),
    says: { level: WARN, reason: RegExp(`cancelled|${CLOSED}`) },
  },
  {
    what: 'a subscription that ends since the server is not ready',
    inject: (server) => server.dropSubscriptions('unavailable'),
    says: { level: WARN, reason: RegExp(`Server Is Not Ready|${CLOSED}`) },
  },
  {
    what: 'connections that are reset',
    inject: (server) => server.dropSubscriptions('reset'),
    says: { level: WARN, reason: RegExp(`ECONNRESET|Connection dropped|${CLOSED}`) },
  },
  {
    what: 'a subscription that ends with an internal error',
    inject: (server) => server.dropSubscriptions('internal'),
    says: { level: WARN, reason: /RST_STREAM/ },
  },
  {
    what: 'a subscription that is sent to another leader',
    inject: (server) => server.dropSubscriptions('notLeader'),
    says: { level: INFO, reason: /leader/i },
  },
  {
    what: 'a subscription that falls silent for ever',
    inject: (server) => server.muteSubscriptions(),
    says: { level: INFO, reason: /silent, though there is more in the log/ },
  },
];
