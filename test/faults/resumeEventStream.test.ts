import { dirname, join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { EventSource } from 'eventsource';
import fc from 'fast-check';
import { expect, onTestFailed, onTestFinished, test } from 'vitest';
import { auditorToken, linesOf, listen, type Message } from '../support/eventStream.ts';
import { USERS, untilAvailable } from '../support/instances.ts';
import { client, startService } from '../support/service.ts';
import { startFakeServer } from '../support/stores.ts';
import { tempDir } from '../support/tempDir.ts';

/** The minimum number of posted plants. */
const PLANTS = 100;
/** Concurrent requests per user. */
const WRITERS = 2;
/** The maximum number of bytes, or of milliseconds, after which a connection is cut. */
const BYTES = 6_000;
const MILLISECONDS = 30;
/** The minimum number of cuts while plants are posted. */
const CUTS = 8;

type As = ReturnType<typeof client>;
type Plant = { subject: string; position: bigint; data: unknown };
type Cut = { after: number; of: 'bytes' | 'milliseconds' };

async function post(as: As, user: string, id: number): Promise<Plant> {
  const plant = { name: `${user}'s plant ${id}`, ...(id % 2 === 0 && { tag: 'indoor' }) };
  const response = await untilAvailable(() => as(user).create(id, plant));
  expect(response.status).toBe(200);
  const position = BigInt(response.headers.get('log-position')?.split('.')[1] ?? '');
  return { subject: `plant-${user}/${id}`, position, data: { id: `${id}`, user, ...plant } };
}

/** Posts plants of two users concurrently, until there are enough. */
async function postMany(as: As, isEnough: () => boolean): Promise<Plant[]> {
  const posted: Plant[] = [];
  const shouldContinue = () => posted.length < PLANTS || !isEnough();
  const write = async (user: string, writer: number): Promise<void> => {
    for (let id = writer; shouldContinue(); id += WRITERS) posted.push(await post(as, user, id));
  };
  const writers = Array.from({ length: WRITERS }, (_, i) => i + 1);
  await Promise.all(USERS.flatMap((user) => writers.map((writer) => write(user, writer))));
  return posted;
}

/** A client whose connection is cut repeatedly, and which resumes each time with the last received ID. */
class Reader {
  readonly messages: Message[] = [];
  cuts = 0;
  readonly #url: string;
  readonly #token: string;
  /** Rejects when a response is an error. */
  readonly reading: Promise<void>;
  /** The expected number of messages. */
  #expectedCount = Number.POSITIVE_INFINITY;
  #over = Promise.withResolvers<void>();

  constructor(url: string, token: string, cuts: Cut[]) {
    this.#url = url;
    this.#token = token;
    this.reading = this.#read(cuts);
  }

  /** The messages, when there are `count` of them and no more arrive. */
  async first(count: number): Promise<Message[]> {
    this.#expectedCount = count;
    this.#endWhenComplete();
    await this.reading;
    return this.messages;
  }

  async #read(cuts: Cut[]): Promise<void> {
    for (const cut of cuts) {
      if (this.messages.length >= this.#expectedCount) return;
      await this.#readUntil(cut);
      this.cuts++;
    }
    throw new Error('no cuts are left');
  }

  async #readUntil({ after, of }: Cut): Promise<void> {
    this.#over = Promise.withResolvers();
    const authorization = `Bearer ${this.#token}`;
    const lastId = this.messages.at(-1)?.id;
    const resuming = lastId === undefined ? {} : { 'last-event-id': lastId };
    const source = new EventSource(this.#url, {
      fetch: async (to, init) => {
        const response = await fetch(to, {
          ...init,
          headers: { ...init.headers, ...resuming, authorization },
        });
        return of === 'bytes'
          ? new Response(response.body?.pipeThrough(firstBytes(after)), response)
          : response;
      },
    });
    onTestFinished(() => source.close());
    source.onmessage = ({ lastEventId, data }) => {
      this.messages.push({ id: lastEventId, data });
      this.#endWhenComplete();
    };
    source.onerror = ({ code }) => {
      if (code === undefined || code === 503) this.#over.resolve();
      else this.#over.reject(new Error(`refused with ${code}, after ${lastId}`));
    };
    this.#endWhenComplete();
    const timer = of === 'bytes' ? undefined : setTimeout(this.#over.resolve, after);
    await this.#over.promise.finally(() => source.close());
    clearTimeout(timer);
  }

  #endWhenComplete(): void {
    if (this.messages.length >= this.#expectedCount) this.#over.resolve();
  }
}

/** Ends a body after this number of bytes. */
function firstBytes(count: number): TransformStream<Uint8Array, Uint8Array> {
  let left = count;
  return new TransformStream({
    transform(piece, controller) {
      controller.enqueue(piece.subarray(0, left));
      left -= piece.length;
      if (left <= 0) controller.terminate();
    },
  });
}

/** Random cuts of connections; SEED=… selects others. */
function randomCuts(): (reader: number) => Cut[] {
  const seed = Number(process.env.SEED ?? 2026);
  onTestFailed(() => console.error(`SEED=${seed}`));
  const cut: fc.Arbitrary<Cut> = fc.oneof(
    fc.record({ after: fc.nat(BYTES), of: fc.constant('bytes' as const) }),
    fc.record({ after: fc.nat(MILLISECONDS), of: fc.constant('milliseconds' as const) }),
  );
  return (reader) => fc.sample(cut, { seed: seed + reader, numRuns: 10_000 });
}

/** One service for writes and reads. */
async function overEmbeddedLog() {
  const { url, dir } = await startService();
  return { url, token: await auditorToken(dir), as: client(url, dir) };
}

/** Two instances, one for writes and the other for reads. */
async function overEventStoreDb() {
  const { url: EVENTSTOREDB_URL } = await startFakeServer();
  const KEY_FILE = join(tempDir(), 'key.json');
  const here = await startService({ EVENTSTOREDB_URL, KEY_FILE });
  const there = await startService({ EVENTSTOREDB_URL, KEY_FILE });
  const keys = dirname(KEY_FILE);
  return { url: there.url, token: await auditorToken(keys), as: client(here.url, keys) };
}

test.each([
  { log: 'the embedded log', open: overEmbeddedLog },
  { log: 'EventStoreDB by another instance', open: overEventStoreDb },
])(
  'a live stream from $log, cut and resumed at random under load, misses and repeats no event',
  async ({ open }) => {
    const { url, token, as } = await open();
    const cuts = randomCuts();
    const posted = [await post(as, 'alice', 0), await post(as, 'bob', 0)];
    const queries = ['', '?user=alice', '?user=bob&type=PlantCreated'];
    const readers = queries.map((query, i) => new Reader(`${url}/events${query}`, token, cuts(i)));
    const posting = postMany(as, () => readers.every(({ cuts }) => cuts >= CUTS));
    await Promise.race([posting, ...readers.map(({ reading }) => reading)]);
    posted.push(...(await posting));
    posted.sort((a, b) => Number(a.position - b.position));
    const of = (user: string) => posted.filter(({ subject }) => subject.startsWith(`plant-${user}/`));
    for (const [i, plants] of [posted, of('alice'), of('bob')].entries()) {
      const reader = readers[i] as Reader;
      const messages = await reader.first(plants.length);
      const found = messages.map(({ id, data }) => {
        const { subject, data: plant } = JSON.parse(data);
        return { subject, position: BigInt(id), data: plant };
      });
      expect(found).toEqual(plants);
      expect(messages.map(({ data }) => data)).toEqual(
        await linesOf(url, { token, query: queries[i] as string }),
      );
    }
  },
);

test('an event stream continues after faults of EventStoreDB, without gaps or duplicates', async () => {
  const server = await startFakeServer();
  const { url, dir, as } = await startService({ EVENTSTOREDB_URL: server.url });
  const token = await auditorToken(dir);
  const [alice, bob] = [as('alice'), as('bob')];
  const stream = listen(url, { token });
  let events = 0;
  const expectAll = async () => {
    await stream.first(events);
    const expected = server.log.all.filter(({ stream: of }) => of.startsWith('plant-'));
    expect(stream.messages.map(({ id }) => id)).toEqual(expected.map(({ position }) => String(position)));
  };
  const post = async () => {
    for (const [user, name] of [[alice, 'Fern'] as const, [bob, 'Oak'] as const]) {
      const id = events++;
      expect((await untilAvailable(() => user.create(id, { name }))).status).toBe(200);
    }
  };
  const isUnavailable = () =>
    linesOf(url, { token, query: '?limit=1' }).then(
      () => false,
      ({ message }: Error) => message.startsWith('503:'),
    );
  const writeDirectly = (user: string) =>
    server.write(`plant-${user}/${events++}`, {
      type: 'PlantCreated',
      data: { id: '1', user, name: 'Ivy' },
    });
  await post();
  await expectAll();
  const restart = () => server.restart();
  const thaw = () => server.thaw();
  const faults: [() => unknown, (() => unknown)?][] = [
    [() => server.stop(), restart],
    [() => server.dropSubscriptions('end')],
    [() => server.dropSubscriptions('reset')],
    [() => server.dropSubscriptions('internal')],
    [() => server.freeze(), thaw],
  ];
  for (const [inject, heal] of faults) {
    await inject();
    for (const user of ['alice', 'bob']) writeDirectly(user);
    if (heal === restart) await expect.poll(isUnavailable).toBe(true);
    if (heal === thaw) await pause(300); // a frozen server cannot be detected from outside
    await heal?.();
    await expectAll();
    await post();
    await expectAll();
  }
  expect(stream.failures).toEqual([]);
  await expect.poll(() => linesOf(url, { token })).toHaveLength(events);
});
