import { setTimeout as pause } from 'node:timers/promises';
import { startFakeServer } from '@event-sourced/testing/stores';
import fc from 'fast-check';
import { expect, onTestFailed, test } from 'vitest';
import { auditorToken, linesOf, listen, type Message, messagesIn } from '../support/eventStream.ts';
import { twoInstances } from '../support/instances.ts';
import { Load } from '../support/load.ts';
import { startService } from '../support/service.ts';

const MIN_PLANTS = 100;
const MAX_BYTES_OF_CONNECTION = 6_000;
/** While plants are posted. */
const MIN_CUTS = 8;

/** A client that resumes with the last received ID. Its connections are cut after the sizes in `cuts`, in bytes. */
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
  const service = await startService();
  return [service, service] as const;
}

/** Two instances, the first for writes and the second for reads. */
const overEventStoreDb = async () => twoInstances((await startFakeServer()).url);

test.each([
  { log: 'the embedded log', open: overEmbeddedLog },
  { log: 'EventStoreDB by another instance', open: overEventStoreDb },
])(
  'a live stream from $log, cut and resumed at random under load, misses and repeats no event',
  async ({ open }) => {
    const [here, { url, keys }] = await open();
    const token = await auditorToken(keys);
    const cuts = randomCuts();
    const load = new Load();
    load.start(here);
    await load.more(MIN_PLANTS);
    const queries = ['', '?user=alice', '?user=bob&type=PlantCreated'];
    const readers = queries.map((query, i) => readWithCuts(`${url}/events${query}`, token, cuts(i)));
    const allCut = expect.poll(() => readers.every(({ done }) => done.cuts >= MIN_CUTS));
    await Promise.race([allCut.toBe(true), ...readers.map(({ reading }) => reading)]);
    await load.stop();
    const posted = load.acknowledged
      .map(({ position, ...plant }) => ({
        subject: `plant-${plant.user}/${plant.id}`,
        position: BigInt(position),
        data: plant,
      }))
      .sort((a, b) => Number(a.position - b.position));
    const of = (user: string) => posted.filter(({ data }) => data.user === user);
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
  const { url, dir } = await startService({ EVENTSTOREDB_URL: server.url });
  const token = await auditorToken(dir);
  const stream = listen(url, { token });
  await stream.opened;
  const written: string[] = [];
  const write = () => {
    for (const user of ['alice', 'bob']) {
      const { position } = server.write(`plant-${user}/${written.length}`, { type: 'PlantCreated' });
      written.push(`${position}`);
    }
  };
  const expectAll = async () => {
    await stream.first(written.length);
    expect(stream.messages.map(({ id }) => id)).toEqual(written);
  };
  const isUnavailable = () =>
    linesOf(url, { token, query: '?limit=1' }).then(
      () => false,
      ({ message }: Error) => message.startsWith('503:'),
    );
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
    write();
    await expectAll();
    await inject();
    write();
    if (heal === restart) await expect.poll(isUnavailable).toBe(true);
    if (heal === thaw) await pause(300); // a frozen server cannot be detected from outside
    await heal?.();
    await expectAll();
  }
  expect(stream.failures).toEqual([]);
});
