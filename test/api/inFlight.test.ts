import { EventEmitter } from 'node:events';
import type { Socket } from 'node:net';
import { expect, test } from 'vitest';
import { InFlight, MAX_IN_FLIGHT, TooManyInFlight } from '../../src/api/inFlight.ts';

/** All lists that alice may have in flight, on one connection. */
function allLists() {
  const lists = new InFlight('lists');
  const socket = Object.assign(new EventEmitter(), { destroyed: false }) as unknown as Socket;
  const responses = Array.from({ length: MAX_IN_FLIGHT.lists }, () =>
    Object.assign(new EventEmitter(), { closed: false }),
  );
  for (const response of responses) lists.add('alice', { request: { socket }, response });
  const another = () =>
    lists.add('alice', {
      request: { socket },
      response: Object.assign(new EventEmitter(), { closed: false }),
    });
  expect(another).toThrow(TooManyInFlight);
  return { lists, socket, responses, another };
}

test('a list is in flight until its response is closed', () => {
  const { responses, another } = allLists();
  responses[0]?.emit('close');
  another();
  expect(another).toThrow(TooManyInFlight);
});

test('the lists of all users are counted, each until it is not in flight any more', () => {
  const { lists, socket, responses } = allLists();
  const ofBob = Object.assign(new EventEmitter(), { closed: false });
  const connection = Object.assign(new EventEmitter(), { destroyed: false }) as unknown as Socket;
  lists.add('bob', { request: { socket: connection }, response: ofBob });
  expect(lists.total).toBe(MAX_IN_FLIGHT.lists + 1);
  responses[0]?.emit('close');
  ofBob.emit('close');
  expect(lists.total).toBe(MAX_IN_FLIGHT.lists - 1);
  socket.emit('close');
  connection.emit('close');
  expect(lists.total).toBe(0);
});

test('no list is in flight on a connection that is closed', () => {
  const { socket, another } = allLists();
  socket.emit('close');
  for (let i = 0; i < MAX_IN_FLIGHT.lists; i++) another();
  expect(another).toThrow(TooManyInFlight);
});
