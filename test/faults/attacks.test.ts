import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import { expect, onTestFinished, test } from 'vitest';
import { ATTACKS } from '../support/attacks.ts';
import { startServer } from '../support/server.ts';
import { type client, tokenOf } from '../support/service.ts';

const CONNECTIONS = 1_000;
const MAX_RSS_MIB = 600;
/** Her list has 16 MB, more than the kernel queues for a connection. */
const PLANTS = 2_000;
const NAME = 'a fern with a name of eight thousand characters'.padEnd(8_000, '-');
/** How often another user is answered during an attack. */
const ROUNDS = 30;
/** What the process may open besides, such as a checkpoint's files. */
const OTHER_DESCRIPTORS = 20;

/** A connection that reads nothing, and does not close. */
function open(url: string): Promise<Socket> {
  const { hostname: host, port } = new URL(url);
  return new Promise((resolve) => {
    const socket = connect({ host, port: Number(port), allowHalfOpen: true });
    socket.pause().on('error', () => {}); // the server may close it
    socket.once('connect', () => resolve(socket));
  });
}

test.runIf(existsSync('/proc/self/status')).each(ATTACKS)(
  `${CONNECTIONS} connections with $name: memory is bounded, and others are answered`,
  async ({ bytes, atOnce }) => {
    const { url, pid, dir, as } = await startServer({ env: { DOCS: 'on', MERKLE_TREE: 'on' } });
    const bob = as('bob');
    let created = 0;
    const isAnswered = async (): Promise<void> => {
      expect((await bob.create(++created, { name: 'Oak' })).status).toBe(200);
      expect(await bob.list()).toHaveLength(created);
    };
    await createPlants(as('mallory'));
    await isAnswered();
    const descriptors = descriptorsOf(pid);

    const token = await tokenOf(dir, 'mallory');
    const sent = Buffer.from(bytes(`Authorization: Bearer ${token}\r\n`)); // all connections share it
    const sockets: Socket[] = [];
    const closeAll = (): void => {
      for (const socket of sockets) socket.destroy();
    };
    onTestFinished(closeAll);
    while (sockets.length < CONNECTIONS) {
      const socket = await open(url);
      sockets.push(socket);
      if (!atOnce) socket.write(sent);
      if (sockets.length % 100 === 0) await isAnswered();
    }
    if (atOnce) for (const socket of sockets) socket.write(sent);
    for (let i = 0; i < ROUNDS; i++) await isAnswered();

    closeAll();
    await expect.poll(() => descriptorsOf(pid)).toBeLessThan(descriptors + OTHER_DESCRIPTORS);
    await isAnswered();
    expect(peakMiB(pid)).toBeLessThan(MAX_RSS_MIB);
  },
);

async function createPlants(user: ReturnType<ReturnType<typeof client>>): Promise<void> {
  for (let id = 0; id < PLANTS; id += 100)
    await Promise.all(Array.from({ length: 100 }, (_, i) => user.create(id + i, { name: NAME })));
}
const descriptorsOf = (pid: number): number => readdirSync(`/proc/${pid}/fd`).length;

/** The largest resident set of a process so far. */
function peakMiB(pid: number): number {
  const [, kib] = /^VmHWM:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8')) ?? [];
  return Math.round(Number(kib) / 1_024);
}
