import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { status } from '@grpc/grpc-js';
import { expect, onTestFinished } from 'vitest';
import type { Drop, FakeEventStoreDb, FakeLog } from '../fakeEventStoreDb/server.ts';
import { client, type Plant, startService } from './service.ts';
import { tempDir } from './tempDir.ts';

export const USERS = ['alice', 'bob'] as const;

/** The delay before a request is repeated after a 503, in milliseconds. */
const RETRY_AFTER_MS = 100;
/** A number of plants after which all writers have been served several times. */
const ENOUGH = 40;

/** Two ready instances over one log, with separate data directories and one key. */
export async function twoInstances(
  url: string,
  urlOfSecond = url,
  env: Record<string, string> = {},
): Promise<Instances> {
  const keys = tempDir();
  const started: Instance[] = [];
  for (const EVENTSTOREDB_URL of [url, urlOfSecond]) {
    const service = await startService({ ...env, KEY_FILE: join(keys, 'key.json'), EVENTSTOREDB_URL });
    await ready(service);
    started.push({ ...service, keys, as: client(service.url, keys) });
  }
  return started as [Instance, Instance];
}

/** `keys` is the directory of their key. */
type Instance = Awaited<ReturnType<typeof startService>> & { keys: string };
export type Instances = Readonly<[Instance, Instance]>;

/** Resolves when an instance has caught up with its log. */
export async function ready({ url }: { url: string }): Promise<void> {
  while ((await fetch(`${url}/health/ready`)).status !== 200) await pause(RETRY_AFTER_MS / 5);
}

/** Repeats a request while it returns 503, like a client. */
export async function untilAvailable(request: () => Promise<Response>): Promise<Response> {
  for (;;) {
    const response = await request();
    if (response.status !== 503) return response;
    await response.arrayBuffer();
    await pause(RETRY_AFTER_MS);
  }
}

/** The plants of each user, computed from the events of the log. */
export class Fold {
  readonly #log: FakeLog;
  readonly #plants = new Map<string, { position: bigint; plant: Plant }[]>();
  #folded = 0;

  constructor(log: FakeLog) {
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
  log: FakeLog;
  /** The pause of each writer after a plant, in milliseconds. */
  pauseMs?: number;
};

/** Concurrent requests per user and instance. */
const WRITERS = 3;
/** A number of 503s of which every writer of every instance has at least one. */
const ONE_503_PER_WRITER = 2 * WRITERS * USERS.length * 2;

/**
 * Two users who create plants through both instances, some twice and some on both concurrently, and retry
 * each until it is acknowledged. In between they list them on the other instance, with the acknowledged
 * Log-Position.
 */
export class Load {
  /** Each plant by its stream, with the position that was acknowledged. */
  readonly acknowledged = new Map<string, Plant & { position: bigint }>();
  /** The responses that violate the guarantees. */
  readonly violations: string[] = [];
  /** The number of 503s. */
  refused = 0;
  /** The last acknowledged Log-Position. */
  end = '';
  readonly #fold: Fold;
  readonly #pauseMs: number;
  readonly #nextId = new Map<string, number>();
  readonly #writing: Promise<unknown>;
  #stopping = false;
  #isOver = false;

  constructor({ instances, log, pauseMs = 5 }: Options) {
    const [first, second] = instances;
    this.#fold = new Fold(log);
    this.#pauseMs = pauseMs;
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

  /** Resolves when `count` more plants are acknowledged, or there is a violation. */
  async more(count = ENOUGH): Promise<void> {
    const enough = this.acknowledged.size + count;
    await expect.poll(() => this.violations.length > 0 || this.acknowledged.size >= enough).toBe(true);
  }

  /** Stops the writers, and resolves when all plants are acknowledged. */
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
        this.violations.push(`plant ${id} of ${user}: ${error}`);
      }
      await pause(this.#pauseMs);
    }
  }

  async #create(user: string, id: number, here: Instance, there: Instance): Promise<string> {
    const plant = { name: `${user}'s plant ${id}`, ...(id % 2 === 0 ? { tag: 'indoor' } : {}) };
    const createAt = async ({ as }: Instance): Promise<string> => {
      const response = await this.#repeat(() => as(user).create(id, plant), 50301);
      this.#expectSame(await response.json(), plant, `the response for plant ${id} of ${user}`);
      return response.headers.get('log-position') ?? '';
    };
    const [position = '', ...others] = await Promise.all(
      (id % 5 === 0 ? [here, there] : [here]).map(createAt), // some on both instances concurrently
    );
    if (id % 5 === 1) others.push(await createAt(there)); // and some twice
    for (const other of others) this.#expectSame(other, position, `the position of plant ${id} of ${user}`);
    this.acknowledged.set(`plant-${user}/${id}`, { position: positionIn(position), ...plant });
    if (this.end === '' || positionIn(position) > positionIn(this.end)) this.end = position;
    return position;
  }

  /** The list must be the fold of the log up to the Log-Position of the response, and not be older. */
  async #list(user: string, { as }: Instance, position: string): Promise<void> {
    const headers = { 'log-position': position };
    const response = await this.#repeat(() => as(user).get('', headers), 50301, 50302);
    const upTo = positionIn(response.headers.get('log-position') ?? '');
    if (upTo < positionIn(position)) this.violations.push(`a list up to ${upTo} instead of ${position}`);
    this.#expectSame(await response.json(), this.#fold.plantsOf(user, upTo), `the list of ${user}`);
  }

  /** Repeats a request until it succeeds. */
  async #repeat(request: () => Promise<Response>, ...refusals: number[]): Promise<Response> {
    while (!this.#isOver) {
      const response = await request();
      if (response.status === 200) return response;
      const { error, message } = (await response.json()) as { error: number; message: string };
      if (!refusals.includes(error)) throw new Error(`refused with ${error}: ${message}`);
      this.refused++;
      await pause(RETRY_AFTER_MS);
    }
    throw new Error('the test is over');
  }

  #expectSame(found: unknown, expected: unknown, what: string): void {
    const [is, shouldBe] = [JSON.stringify(found), JSON.stringify(expected)];
    if (is !== shouldBe) this.violations.push(`${what} is ${is} instead of ${shouldBe}`);
  }
}

/** Expects that more plants are created after a fault, and all are acknowledged. */
export async function expectRecovery(load: Load): Promise<void> {
  await load.more();
  await load.stop();
}

/** Expects that log and views are consistent, and that the nodes have no leftover calls. */
export async function expectConsistent(
  load: Load,
  { instances, nodes }: { instances: Instances; nodes: FakeEventStoreDb[] },
): Promise<void> {
  expect(load.violations).toEqual([]);
  const [{ log }] = nodes as [FakeEventStoreDb];
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
      const response = await untilAvailable(() => instance.as(user).get('', { 'log-position': load.end }));
      expect(await response.json()).toEqual(fold.plantsOf(user));
    }
  }
  const total = (count: (node: FakeEventStoreDb) => number) =>
    nodes.reduce((sum, node) => sum + count(node), 0);
  const open = () => ({
    subscriptions: total((node) => node.openSubscriptions),
    reads: total((node) => node.openReads),
    batchesOfEach: Math.ceil(total((node) => node.openBatches) / instances.length),
  });
  await expect.poll(open).toEqual({ subscriptions: 2, reads: 0, batchesOfEach: 1 });
  // Each drop is logged once: there are at most as many lines as resubscriptions.
  const drops = dropsIn(instances).flat();
  const resubscriptions = total((node) => node.calls.subscribe) - instances.length;
  expect(drops.length).toBeLessThanOrEqual(resubscriptions);
  for (const { reason } of drops) expect(reason).toMatch(/./);
}

type LoggedDrop = { level: number; reason: string };

/** The log lines of each instance about its subscription. */
export function dropsIn(instances: Instances): LoggedDrop[][] {
  const isDrop = ({ msg }: { msg: string }) => msg === 'subscription dropped; resubscribing';
  return instances.map(({ log }) =>
    log()
      .filter(isDrop)
      .map(({ level, reason }) => ({ level, reason })),
  );
}

/** The resources of this process that could leak, its listeners and threads, and its warnings. */
export function resourcesInUse() {
  const warnings: string[] = [];
  const warn = ({ name, message }: Error) => void warnings.push(`${name}: ${message}`);
  process.on('warning', warn);
  onTestFinished(() => void process.off('warning', warn));
  const threads = () => (existsSync('/proc/self/task') ? readdirSync('/proc/self/task').length : 0);
  const threadsBefore = threads();
  const listenersBefore = new Map(process.eventNames().map((name) => [name, process.listenerCount(name)]));
  const isNew = (name: string | symbol) => process.listenerCount(name) > (listenersBefore.get(name) ?? 0);
  const more = () => ({
    threads: Math.max(0, threads() - threadsBefore),
    listeners: process.eventNames().filter(isNew),
    warnings,
  });
  return { expectNoMore: () => expect.poll(more).toEqual({ threads: 0, listeners: [], warnings: [] }) };
}

/** The position in a `Log-Position`. */
function positionIn(text: string): bigint {
  return BigInt(text.split('.').at(-1) ?? '');
}

/** The error of an append while the client closes the channel; it may be reported before the reason. */
const CLOSED = 'Channel closed before call started';
/** Pino's levels. */
const INFO = 30;
const WARN = 40;

/** The changes since a fault was injected. */
type Since = {
  /** The log lines of each instance. */
  drops: LoggedDrop[][];
  subscriptions: number;
  acknowledged: number;
  refused: number;
  /** The number of injected failures that have not occurred yet. */
  failuresLeft: number;
};

/** A fault of a server, and what the service logs about it. */
type Fault = {
  what: string;
  inject: (server: FakeEventStoreDb) => unknown;
  /** Whether the fault has affected the instances, so that it can be healed. */
  hasOccurred: (since: Since) => boolean;
  heal?: (server: FakeEventStoreDb) => unknown;
  /** The expected log line of each instance. */
  logs?: { level: number; reason: RegExp };
};

/** Each has logged a drop; or, if one was resubscribing and logs none, every writer has received a 503. */
const hasAffectedEach = ({ drops, refused }: Since): boolean =>
  drops.every(({ length }) => length > 0) || refused >= ONE_503_PER_WRITER;
const hasResubscribedEach = ({ drops, subscriptions }: Since): boolean => subscriptions >= drops.length;

const LOST_CONNECTION = { level: WARN, reason: RegExp(`ECONNRESET|Connection dropped|${CLOSED}`) };

/** Failures of the next calls. */
const failing = (what: string, inject: Fault['inject']): Fault => ({
  what,
  inject,
  hasOccurred: ({ failuresLeft }) => failuresLeft === 0,
});

/** The end of all subscriptions. */
const dropped = (what: string, how: Drop, level: number, reason: RegExp): Fault => ({
  what: `a subscription that ${what}`,
  inject: (server) => server.dropSubscriptions(how),
  hasOccurred: hasResubscribedEach,
  logs: { level, reason },
});

export const FAULTS = {
  gone: {
    what: 'a short outage of the server',
    inject: (server) => server.stop(),
    hasOccurred: hasAffectedEach,
    heal: (server) => server.restart(),
    logs: LOST_CONNECTION,
  },
  goneForLong: {
    what: 'an outage of the server until requests are 503',
    inject: (server) => server.stop(),
    hasOccurred: (since) => hasAffectedEach(since) && since.refused > 0,
    heal: (server) => server.restart(),
    logs: LOST_CONNECTION,
  },
  lostResponses: failing('lost responses after the plant was stored', (server) => server.loseResponses(8)),
  brokenCalls: failing('broken calls after the plant was stored', (server) => server.breakAfterStoring(4)),
  serverTimeouts: failing('timeouts reported after the plant was stored', (server) => server.timeOut(20)),
  frozen: {
    what: 'a server that is frozen for seconds',
    inject: (server) => server.freeze(),
    hasOccurred: hasAffectedEach,
    heal: (server) => server.thaw(),
    logs: { level: WARN, reason: /^no response for \d+ ms$/ },
  },
  slow: {
    what: 'a slow server',
    inject: (server) => server.slow(200),
    hasOccurred: ({ acknowledged }) => acknowledged >= ENOUGH,
    heal: (server) => server.slow(0),
  },
  busy: failing('a busy server', (server) => server.busy(50)),
  notLeader: failing('a server that is no longer the leader', (server) => server.notLeader(20)),
  internalErrors: failing('appends that fail with an internal error', (server) =>
    server.failAppends(4, status.INTERNAL),
  ),
  brokenClients: failing('an internal error that breaks the client permanently', (server) => {
    server.failFeatures(2);
    server.failAppends(2, status.INTERNAL); // so that there are new clients
  }),
  ended: dropped('ends without an error', 'end', INFO, /^the server ended the subscription$/),
  tooSlow: dropped('was too slow for the server', 'slow', INFO, /Consumer too slow/),
  cancelled: dropped('is cancelled', 'cancelled', WARN, RegExp(`cancelled|${CLOSED}`)),
  notReady: dropped(
    'ends because the server is not ready',
    'unavailable',
    WARN,
    RegExp(`Server Is Not Ready|${CLOSED}`),
  ),
  reset: dropped('loses its connection', 'reset', WARN, LOST_CONNECTION.reason),
  internalError: dropped('ends with an internal error', 'internal', WARN, /RST_STREAM/),
  sentToLeader: dropped('is redirected to another leader', 'notLeader', INFO, /leader/i),
  silent: {
    what: 'a subscription that becomes silent permanently',
    inject: (server) => server.muteSubscriptions(),
    hasOccurred: hasResubscribedEach,
    logs: { level: INFO, reason: /silent, although the log has more events/ },
  },
} satisfies Record<string, Fault>;

/** The maximum number of injections of a fault. */
const ATTEMPTS = 5;

/**
 * Injects a fault, and heals it when it has affected both instances and they have logged it. On a slow
 * machine an instance may resubscribe at that time for another reason: then the fault is injected again.
 */
export async function injectAndHeal(
  { what, inject, hasOccurred, heal, logs }: Fault,
  { server, instances, load }: { server: FakeEventStoreDb; instances: Instances; load: Load },
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
      failuresLeft: server.failuresLeft,
    });
    await inject(server);
    const state = () => ({ ...since(), hasOccurred: hasOccurred(since()) });
    await expect.poll(state, { interval: 100, message: what }).toMatchObject({ hasOccurred: true });
    await heal?.(server);
    if (!logs || isLogged()) return;
  }
  const line = { level: logs?.level, reason: expect.stringMatching(logs?.reason ?? '') };
  expect(drops(), what).toEqual(instances.map(() => expect.arrayContaining([line])));
}
