import { EventEmitter } from 'node:events';
import type { Socket } from 'node:net';
import { expect, test } from 'vitest';
import { UnreadResponses } from '../src/unreadResponses.ts';

const MAX_BYTES = 1_000;

/** A connection to which bytes are written, and whose client reads some of them. */
class Connection extends EventEmitter {
  writableLength = 0;
  bytesWritten = 0;
  destroyed = false;

  write(bytes: number): void {
    this.writableLength += bytes;
    this.bytesWritten += bytes;
  }
  read(bytes: number): void {
    this.writableLength -= bytes;
  }
  destroy(): void {
    this.destroyed = true;
    this.emit('close');
  }
}

function open(count: number) {
  let closed = 0;
  const unread = new UnreadResponses(() => closed++, MAX_BYTES);
  const connections = Array.from({ length: count }, () => new Connection());
  for (const connection of connections) unread.add(connection as unknown as Socket);
  /** The connections that were closed, by index, when as many bytes were written to each. */
  const afterWriting = (...bytes: number[]): number[] => {
    bytes.forEach((length, i) => void connections[i]?.write(length));
    unread.onSecond();
    const indices = connections.flatMap(({ destroyed }, i) => (destroyed ? [i] : []));
    expect(closed).toBe(indices.length);
    return indices;
  };
  return { unread, connections, afterWriting };
}

test('no connection is closed while the unread bytes of all are within the bound', () => {
  const { connections, afterWriting } = open(3);
  expect(afterWriting(400, 300, 300)).toEqual([]);
  for (const connection of connections) connection.read(300);
  expect(afterWriting(0, 400, 500)).toEqual([]);
});

test('over it, those are closed that have read least since then, and no more than needed', () => {
  const { connections, afterWriting } = open(4);
  expect(afterWriting(400, 200, 200, 200)).toEqual([]);
  [30, 10, 40, 20].forEach((bytes, i) => void connections[i]?.read(bytes));
  expect(afterWriting(0, 0, 0, 100)).toEqual([]);
  expect(afterWriting(1)).toEqual([1]);
  connections[0]?.read(15);
  expect(afterWriting(205)).toEqual([1, 3]);
});

test('a connection that has read everything begins anew', () => {
  const { connections, afterWriting } = open(2);
  expect(afterWriting(500)).toEqual([]);
  expect(afterWriting(0, 500)).toEqual([]);
  connections[0]?.read(500);
  connections[1]?.read(1);
  expect(afterWriting()).toEqual([]);
  expect(afterWriting(502)).toEqual([0]);
});

test('of those that have read nothing, those are closed that had two seconds for it; then the newest', () => {
  const { afterWriting } = open(5);
  expect(afterWriting(300)).toEqual([]);
  expect(afterWriting(0, 300)).toEqual([]);
  expect(afterWriting()).toEqual([]);
  expect(afterWriting(0, 0, 300)).toEqual([]);
  expect(afterWriting(0, 0, 0, 300)).toEqual([1]);
  expect(afterWriting(0, 0, 0, 200, 0)).toEqual([1, 2]);
  expect(afterWriting(0, 0, 0, 0, 1_000)).toEqual([0, 1, 2, 3]);
});

test('a client that reads little, but steadily, stays beside those that open connections again and again', () => {
  const { connections, unread, afterWriting } = open(1);
  const [slow] = connections;
  afterWriting(400);
  let reopened = 0;
  for (let second = 0; second < 20; second++) {
    for (let i = 0; i < 4; i++) {
      const other = new Connection();
      unread.add(other as unknown as Socket);
      other.write(300);
      other.once('close', () => reopened++);
    }
    slow?.read(1);
    unread.onSecond();
  }
  expect(reopened).toBeGreaterThan(70);
  expect(slow?.destroyed).toBe(false);
});

test('connections are looked at after 64 requests, or a quarter of their number', () => {
  for (const [count, requests] of [
    [1, 64],
    [400, 100],
  ] as const) {
    const { unread, connections } = open(count);
    connections[0]?.write(MAX_BYTES + 1);
    for (let i = 1; i < requests; i++) unread.onRequest();
    expect(connections[0]?.destroyed).toBe(false);
    unread.onRequest();
    expect(connections[0]?.destroyed).toBe(true);
  }
});
