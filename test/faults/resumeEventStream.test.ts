import { dirname, join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import fc from 'fast-check';
import { expect, onTestFailed, test } from 'vitest';
import { auditorToken, linesOf, listen, type Message, messagesIn } from '../support/eventStream.ts';
import { USERS, untilAvailable } from '../support/instances.ts';
import { client, startService } from '../support/service.ts';
import { startFakeServer } from '../support/stores.ts';
import { tempDir } from '../support/tempDir.ts';

const MIN_PLANTS = 100;
const WRITERS_PER_USER = 2;
const MAX_BYTES_OF_CONNECTION = 6_000;
/** While plants are posted. */
const MIN_CUTS = 8;

type As = ReturnType<typeof client>;
type Plant = { subject: string; position: bigint; data: unknown };

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
  const shouldContinue = () => posted.length < MIN_PLANTS || !isEnough();
  const write = async (user: string, writer: number): Promise<void> => {
    for (let id = writer; shouldContinue(); id += WRITERS_PER_USER) posted.push(await post(as, user, id));
  };
  const writers = Array.from({ length: WRITERS_PER_USER }, (_, i) => i + 1);
  await Promise.all(USERS.flatMap((user) => writers.map((writer) => write(user, writer))));
  return posted;
}

/** A client whose connection is cut after so many bytes each time, and which resumes with the last received ID. */
function readWithCuts(url: string, token: string, cuts: number[]) {
  const messages: Message[] = [];
  const done = { cuts: 0 };
  let expected = Number.POSITIVE_INFINITY;
  let leaving = new AbortController();

  async function readBytes(count: number): Promise<void> {
    leaving = new AbortController();
    const lastId = messages.at(-1)?.id;
    const headers = {
      accept: 'text/event-stream',
      authorization: `Bearer ${token}`,
      ...(lastId !== undefined && { 'last-event-id': lastId }),
    };
    const response = await fetch(url, { headers, signal: leaving.signal });
    if (response.status === 503) return;
    if (response.status !== 200) throw new Error(`refused with ${response.status}, after ${lastId}`);
    const decoder = new TextDecoder();
    let text = '';
    let left = count;
    for await (const piece of response.body as ReadableStream<Uint8Array>) {
      text += decoder.decode(piece.subarray(0, left), { stream: true });
      messages.push(...messagesIn(text));
      text = text.split('\n\n').at(-1) ?? '';
      left -= piece.length;
      if (left <= 0 || messages.length >= expected) return;
    }
  }

  const reading = (async () => {
    for (const cut of cuts) {
      if (messages.length >= expected) return;
      await readBytes(cut).catch((error) => {
        if (!leaving.signal.aborted) throw error;
      });
      leaving.abort();
      done.cuts++;
    }
    throw new Error('no cuts are left');
  })();
  return {
    done,
    reading,
    /** The messages, when there are this many. */
    async first(count: number): Promise<Message[]> {
      expected = count;
      if (messages.length >= count) leaving.abort();
      await reading;
      return messages;
    },
  };
}

/** Random cuts of connections, in bytes; SEED=… selects others. */
function randomCuts(): (reader: number) => number[] {
  const seed = Number(process.env.SEED ?? 2026);
  onTestFailed(() => console.error(`SEED=${seed}`));
  return (reader) => fc.sample(fc.nat(MAX_BYTES_OF_CONNECTION), { seed: seed + reader, numRuns: 10_000 });
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
    const readers = queries.map((query, i) => readWithCuts(`${url}/events${query}`, token, cuts(i)));
    const posting = postMany(as, () => readers.every(({ done }) => done.cuts >= MIN_CUTS));
    await Promise.race([posting, ...readers.map(({ reading }) => reading)]);
    posted.push(...(await posting));
    posted.sort((a, b) => Number(a.position - b.position));
    const of = (user: string) => posted.filter(({ subject }) => subject.startsWith(`plant-${user}/`));
    for (const [i, plants] of [posted, of('alice'), of('bob')].entries()) {
      const messages = (await readers[i]?.first(plants.length)) ?? [];
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
