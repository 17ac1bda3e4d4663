import { EventEmitter } from 'node:events';
import { expect, test } from 'vitest';
import { TooManyInFlight } from '../../packages/http/src/inFlight.ts';
import { InFlight, MAX_IN_FLIGHT } from '../../src/inFlight.ts';

const open = () => Object.assign(new EventEmitter(), { closed: false });

/** All lists that alice may have in flight. */
function allLists() {
  const lists = new InFlight('lists');
  const responses = Array.from({ length: MAX_IN_FLIGHT.lists }, open);
  for (const response of responses) lists.add('alice', response);
  const another = () => lists.add('alice', open());
  expect(another).toThrow(TooManyInFlight);
  return { lists, responses, another };
}

test('a list is in flight until its response is closed', () => {
  const { responses, another } = allLists();
  responses[0]?.emit('close');
  another();
  expect(another).toThrow(TooManyInFlight);
});

test('the lists of all users are counted, each until it is not in flight any more', () => {
  const { lists, responses } = allLists();
  const ofBob = open();
  lists.add('bob', ofBob);
  expect(lists.total).toBe(MAX_IN_FLIGHT.lists + 1);
  for (const response of [...responses, ofBob]) response.emit('close');
  expect(lists.total).toBe(0);
});

test('a response that is closed is not counted', () => {
  const lists = new InFlight('lists');
  expect(lists.add('alice', Object.assign(open(), { closed: true }))).toBe(false);
  expect(lists.total).toBe(0);
});
