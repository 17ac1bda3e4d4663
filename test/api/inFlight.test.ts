import { EventEmitter } from 'node:events';
import { expect, test } from 'vitest';
import { TooManyInFlight } from '../../packages/http/src/inFlight.ts';
import { InFlight, MAX_IN_FLIGHT } from '../../src/inFlight.ts';

const open = () => Object.assign(new EventEmitter(), { closed: false });

test('the lists of all users are counted, and those of each user limited, until their responses are closed', () => {
  const lists = new InFlight('lists');
  const responses = Array.from({ length: MAX_IN_FLIGHT.lists }, open);
  for (const response of responses) lists.add('alice', response);
  const another = open();
  expect(() => lists.add('alice', another)).toThrow(TooManyInFlight);
  const ofBob = open();
  lists.add('bob', ofBob);
  expect(lists.total).toBe(MAX_IN_FLIGHT.lists + 1);
  responses.pop()?.emit('close');
  lists.add('alice', another);
  expect(() => lists.add('alice', open())).toThrow(TooManyInFlight);
  for (const response of [...responses, another, ofBob]) response.emit('close');
  expect(lists.total).toBe(0);
});

test('a response that is closed is not counted', () => {
  const lists = new InFlight('lists');
  expect(lists.add('alice', Object.assign(open(), { closed: true }))).toBe(false);
  expect(lists.total).toBe(0);
});
