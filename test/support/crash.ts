import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import fc from 'fast-check';
import { expect } from 'vitest';
import { rowsIn } from './logs.ts';
import { startServer } from './process.ts';
import { client } from './service.ts';
import { tempDir } from './tempDir.ts';

const WRITERS = 16;
const USERS = ['alice', 'bob', 'carol'];

type Acknowledged = { user: string; id: number; name: string; position: string };

type Writer = { user: string; acknowledged: Acknowledged[] };

/**
 * Kills a server under load this number of times, and checks that it keeps and lists every acknowledged plant
 * once. Each lifetime is a number of acknowledged plants, the same in every run.
 */
export async function killUnderLoad(kills: number): Promise<void> {
  const LIFETIMES = fc.sample(fc.noBias(fc.integer({ min: 1, max: 300 })), { numRuns: kills, seed: 2026 });
  const DATA_DIR = tempDir();
  const writers = Array.from(
    { length: WRITERS },
    (_, i): Writer => ({ user: USERS[i % USERS.length] as string, acknowledged: [] }),
  );
  let nextId = 1;
  let count = 0;
  /** Called for each acknowledged plant. */
  let onAcknowledged = () => {};

  /** Creates one plant after the other until the server is killed. */
  async function write({ user, acknowledged }: Writer, as: ReturnType<typeof client>): Promise<void> {
    for (;;) {
      const id = nextId++;
      const name = `${user}'s plant ${id}`;
      try {
        const response = await as(user).create(id, { name });
        if (response.status !== 200) throw new Error(`returned ${response.status}: ${await response.text()}`);
        const position = response.headers.get('log-position') as string;
        acknowledged.push({ user, id, name, position });
        count++;
        onAcknowledged();
        await response.text();
      } catch (error) {
        if (error instanceof TypeError) return; // fetch: the connection was closed
        throw error;
      }
    }
  }

  for (const lifetime of LIFETIMES) {
    const server = await startServer({ env: { DATA_DIR } });
    const as = client(server.url, DATA_DIR);
    const end = count + lifetime;
    const lifetimeOver = Promise.withResolvers<void>();
    onAcknowledged = () => {
      if (count >= end) lifetimeOver.resolve();
    };
    const writing = Promise.all(writers.map((writer) => write(writer, as)));
    await Promise.race([lifetimeOver.promise, writing]); // writing ends early only on failure
    await server.kill();
    await writing;
  }

  const server = await startServer({ env: { DATA_DIR } });
  const as = client(server.url, DATA_DIR);
  const listed = await Promise.all(USERS.map((user) => as(user).list()));
  process.kill(server.pid, 'SIGTERM');
  await server.ended;

  using log = new DatabaseSync(join(DATA_DIR, 'log.db'), { readOnly: true });
  expect(log.prepare('PRAGMA integrity_check').get()).toEqual({ integrity_check: 'ok' });
  const events = rowsIn(join(DATA_DIR, 'log.db')).map(({ data, ...row }) => ({
    ...JSON.parse(data),
    ...row,
  }));

  const acknowledged = writers.flatMap((writer) => writer.acknowledged);
  expect(new Set(events.map(({ stream }) => stream)).size).toBe(events.length);

  const kept = new Map(events.map((event) => [event.stream, event]));
  const lost = acknowledged.filter(({ user, id, name, position }) => {
    const event = kept.get(`plant-${user}/${id}`);
    return event?.name !== name || !position.endsWith(`.${event.position}`);
  });
  expect(lost).toEqual([]);

  for (const [i, user] of USERS.entries()) {
    const ofUser = events.filter((event) => event.user === user);
    expect(listed[i]).toEqual(ofUser.map(({ name }) => ({ name })));
  }

  for (const { acknowledged } of writers) {
    const positions = acknowledged.map(({ position }) => Number(position.split('.').at(-1)));
    expect(positions).toEqual([...new Set(positions)].sort((a, b) => a - b));
  }
}
