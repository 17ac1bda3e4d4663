import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { status } from '@grpc/grpc-js';
import { expect, onTestFinished } from 'vitest';
import type { DoubleLog, EventStoreDbDouble } from './eventStoreDbDouble.ts';
import { client, type Plant, startService } from './service.ts';
import { tempDir } from './tempDir.ts';

export const USERS = ['alice', 'bob'] as const;

/** After a 503 the request is repeated after this, in milliseconds. */
const RETRY_AFTER_MS = 100;
/** So many plants are enough to see that all writers are served, several times each. */
const ENOUGH = 40;

/** Two instances over one log, ready: a data directory each, one key. */
export async function twoInstances(url: string, urlOfSecond = url): Promise<Instances> {
  const keys = tempDir();
  const started: Instance[] = [];
  for (const EVENTSTOREDB_URL of [url, urlOfSecond]) {
    const service = await startService({ KEY_FILE: join(keys, 'key.json'), EVENTSTOREDB_URL });
    await ready(service);
    started.push({ ...service, as: client(service.url, keys) });
  }
  return started as [Instance, Instance];
}

type Instance = Awaited<ReturnType<typeof startService>>;
export type Instances = Readonly<[Instance, Instance]>;

/** Resolves once an instance has caught up with its log. */
export async function ready({ url }: { url: string }): Promise<void> {
  while ((await fetch(`${url}/health/ready`)).status !== 200) await pause(RETRY_AFTER_MS / 5);
}

/** Repeats a request while it is refused with 503, as clients do. */
export async function answered(request: () => Promise<Response>): Promise<Response> {
  for (;;) {
    const answer = await request();
    if (answer.status !== 503) return answer;
    await answer.arrayBuffer();
    await pause(RETRY_AFTER_MS);
  }
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
/** So many refusals are at least one for each writer of each instance. */
const REFUSED_TO_ALL = 2 * WRITERS * USERS.length * 2;

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
  #isOver = false;

  constructor({ instances, log, rest = 5 }: Options) {
    const [first, second] = instances;
    this.#fold = new Fold(log);
    this.#rest = rest;
    onTestFinished(() => {
      this.#stopping = true;
      this.#isOver = true;
    });
    this.#writing = Promise.all(
      USERS.flatMap((user) =>
        Array.from({ length: WRITERS }, () => [
          this.#write(user, first, second),
          this.#write(user, second, first),
        ]).flat(),
      ),
    );
  }

  /** Resolves once so many more plants are acknowledged, or something is wrong. */
  async more(count = ENOUGH): Promise<void> {
    const enough = this.acknowledged.size + count;
    await expect.poll(() => this.complaints.length > 0 || this.acknowledged.size >= enough).toBe(true);
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
      const answer = await this.#repeat(() => as(user).create(id, plant), 50301);
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
    const answer = await this.#repeat(() => as(user).get('', headers), 50301, 50302);
    const upTo = positionIn(answer.headers.get('log-position') ?? '');
    if (upTo < positionIn(position)) this.complaints.push(`a list up to ${upTo} instead of ${position}`);
    this.#expectSame(await answer.json(), this.#fold.plantsOf(user, upTo), `the list of ${user}`);
  }

  /** Repeats a request until it succeeds. */
  async #repeat(request: () => Promise<Response>, ...refusals: number[]): Promise<Response> {
    while (!this.#isOver) {
      const answer = await request();
      if (answer.status === 200) return answer;
      const { error, message } = (await answer.json()) as { error: number; message: string };
      if (!refusals.includes(error)) throw new Error(`refused with ${error}: ${message}`);
      this.refused++;
      await pause(RETRY_AFTER_MS);
    }
    throw new Error('the test is over');
  }

  #expectSame(found: unknown, expected: unknown, what: string): void {
    const [is, shouldBe] = [JSON.stringify(found), JSON.stringify(expected)];
    if (is !== shouldBe) this.complaints.push(`${what} is ${is} instead of ${shouldBe}`);
  }
}

/** More plants are created than before a fault, and each of them is acknowledged. */
export async function expectRecovery(load: Load): Promise<void> {
  await load.more();
  await load.stop();
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
      const answer = await answered(() => instance.as(user).get('', { 'log-position': load.end }));
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
  await expect.poll(open).toEqual({ subscriptions: 2, reads: 0, batchesOfEach: 1 });
  // Each drop is logged once: there are no more lines than subscriptions that were made again.
  const drops = dropsIn(instances).flat();
  const madeAgain = total((node) => node.calls.subscribe) - instances.length;
  expect(drops.length).toBeLessThanOrEqual(madeAgain);
  for (const { reason } of drops) expect(reason).toMatch(/./);
}

type LoggedDrop = { level: number; reason: string };

/** What each instance has logged of its subscription. */
export function dropsIn(instances: Instances): LoggedDrop[][] {
  return instances.map((instance) =>
    instance
      .log()
      .filter(({ msg }) => msg === 'EventStoreDB has dropped the subscription: subscribing again')
      .map(({ level, reason }) => ({ level, reason })),
  );
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
  return { expectNoMore: () => expect.poll(more).toEqual({ threads: 0, listeners: [], warnings: [] }) };
}

/** The place in the log in a `Log-Position`. */
function positionIn(text: string): bigint {
  return BigInt(text.split('.').at(-1) ?? '');
}

/** What an append says that comes while the client is closing the channel: it may be heard before the reason for that. */
const CLOSED = 'Channel closed before call started';
/** Pino's levels. */
const INFO = 30;
const WARN = 40;

/** What has happened since a fault was injected. */
type Since = {
  /** What each instance has logged. */
  drops: LoggedDrop[][];
  subscriptions: number;
  acknowledged: number;
  refused: number;
  /** Calls that are still to fail. */
  faultsLeft: number;
};

/** What may go wrong with a server, and what the service logs of it. */
export type Fault = {
  what: string;
  inject: (server: EventStoreDbDouble) => unknown;
  /** Whether the instances have met it, so that it may be healed. */
  isMet: (since: Since) => boolean;
  heal?: (server: EventStoreDbDouble) => unknown;
  /** What each instance logs. */
  logs?: { level: number; reason: RegExp };
};

const allCallsFailed = ({ faultsLeft }: Since): boolean => faultsLeft === 0;
/** Each has logged a drop; or, if one was subscribing again just then and logs none, every writer has been refused. */
const eachHasMetIt = ({ drops, refused }: Since): boolean =>
  drops.every(({ length }) => length > 0) || refused >= REFUSED_TO_ALL;
const eachHasSubscribedAgain = ({ drops, subscriptions }: Since): boolean => subscriptions >= drops.length;

const LOST_CONNECTION = { level: WARN, reason: RegExp(`ECONNRESET|Connection dropped|${CLOSED}`) };

export const FAULTS = {
  gone: {
    what: 'a server that is gone for a while',
    inject: (server) => server.stop(),
    isMet: eachHasMetIt,
    heal: (server) => server.restart(),
    logs: LOST_CONNECTION,
  },
  goneForLong: {
    what: 'a server that is gone until requests are refused',
    inject: (server) => server.stop(),
    isMet: (since) => eachHasMetIt(since) && since.refused > 0,
    heal: (server) => server.restart(),
    logs: LOST_CONNECTION,
  },
  lostAnswers: {
    what: 'answers that are lost after the plant was stored',
    inject: (server) => server.loseAnswers(8),
    isMet: allCallsFailed,
  },
  brokenCalls: {
    what: 'calls that break after the plant was stored',
    inject: (server) => server.breakAfterStoring(4),
    isMet: allCallsFailed,
  },
  serverTimeouts: {
    what: 'a server that has stored a plant and says that it ran out of time',
    inject: (server) => server.timeOut(20),
    isMet: allCallsFailed,
  },
  frozen: {
    what: 'a server that stands still for seconds',
    inject: (server) => server.freeze(),
    isMet: eachHasMetIt,
    heal: (server) => server.thaw(),
    logs: { level: WARN, reason: /^no answer for \d+ ms$/ },
  },
  slow: {
    what: 'a server that is slow',
    inject: (server) => server.slow(200),
    isMet: ({ acknowledged }) => acknowledged >= ENOUGH,
    heal: (server) => server.slow(0),
  },
  busy: {
    what: 'a server that is busy',
    inject: (server) => server.busy(50),
    isMet: allCallsFailed,
  },
  notLeader: {
    what: 'a server that leads no more',
    inject: (server) => server.notLeader(20),
    isMet: allCallsFailed,
  },
  internalErrors: {
    what: 'appends that end with an internal error',
    inject: (server) => server.failAppends(4, status.INTERNAL),
    isMet: allCallsFailed,
  },
  brokenClients: {
    what: 'an internal error at the first append of a client, which breaks the client for good',
    inject: (server) => {
      server.failFeatures(2);
      server.failAppends(2, status.INTERNAL); // so that there are new clients
    },
    isMet: allCallsFailed,
  },
  ended: {
    what: 'a subscription that just ends',
    inject: (server) => server.dropSubscriptions('end'),
    isMet: eachHasSubscribedAgain,
    logs: { level: INFO, reason: /^the server ended it$/ },
  },
  tooSlow: {
    what: 'a subscription that was too slow for the server',
    inject: (server) => server.dropSubscriptions('slow'),
    isMet: eachHasSubscribedAgain,
    logs: { level: INFO, reason: /Consumer too slow/ },
  },
  cancelled: {
    what: 'a subscription that is cancelled',
    inject: (server) => server.dropSubscriptions('cancelled'),
    isMet: eachHasSubscribedAgain,
    logs: { level: WARN, reason: RegExp(`cancelled|${CLOSED}`) },
  },
  notReady: {
    what: 'a subscription that ends since the server is not ready',
    inject: (server) => server.dropSubscriptions('unavailable'),
    isMet: eachHasSubscribedAgain,
    logs: { level: WARN, reason: RegExp(`Server Is Not Ready|${CLOSED}`) },
  },
  reset: {
    what: 'connections that are reset',
    inject: (server) => server.dropSubscriptions('reset'),
    isMet: eachHasSubscribedAgain,
    logs: LOST_CONNECTION,
  },
  internalError: {
    what: 'a subscription that ends with an internal error',
    inject: (server) => server.dropSubscriptions('internal'),
    isMet: eachHasSubscribedAgain,
    logs: { level: WARN, reason: /RST_STREAM/ },
  },
  sentToLeader: {
    what: 'a subscription that is sent to another leader',
    inject: (server) => server.dropSubscriptions('notLeader'),
    isMet: eachHasSubscribedAgain,
    logs: { level: INFO, reason: /leader/i },
  },
  silent: {
    what: 'a subscription that falls silent for ever',
    inject: (server) => server.muteSubscriptions(),
    isMet: eachHasSubscribedAgain,
    logs: { level: INFO, reason: /silent, though there is more in the log/ },
  },
} satisfies Record<string, Fault>;

/** A fault is injected so often at most. */
const ATTEMPTS = 5;

type Scene = { server: EventStoreDbDouble; instances: Instances; load: Load };

/**
 * Injects a fault and heals it once both instances have met it, and have logged what they should. On a slow machine an
 * instance may just then subscribe again for another reason: then the fault is injected once more.
 */
export async function meet(
  { what, inject, isMet, heal, logs }: Fault,
  { server, instances, load }: Scene,
): Promise<void> {
  const linesBefore = dropsIn(instances).map(({ length }) => length);
  const drops = () => dropsIn(instances).map((of, i) => of.slice(linesBefore[i]));
  const isLogged = () =>
    drops().every((of) => of.some(({ level, reason }) => level === logs?.level && logs.reason.test(reason)));

  for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
    await expect.poll(() => server.openSubscriptions).toBe(instances.length);
    const linesAtFirst = dropsIn(instances).map(({ length }) => length);
    const subscriptions = server.calls.subscribe;
    const [acknowledged, refused] = [load.acknowledged.size, load.refused];
    const since = (): Since => ({
      drops: dropsIn(instances).map((of, i) => of.slice(linesAtFirst[i])),
      subscriptions: server.calls.subscribe - subscriptions,
      acknowledged: load.acknowledged.size - acknowledged,
      refused: load.refused - refused,
      faultsLeft: server.faultsLeft,
    });
    await inject(server);
    const state = () => ({ ...since(), isMet: isMet(since()) });
    await expect.poll(state, { interval: 100, message: what }).toMatchObject({ isMet: true });
    await heal?.(server);
    if (!logs || isLogged()) return;
  }
  const line = { level: logs?.level, reason: expect.stringMatching(logs?.reason ?? '') };
  expect(drops(), what).toEqual(instances.map(() => expect.arrayContaining([line])));
}
