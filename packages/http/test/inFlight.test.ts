import { EventEmitter } from 'node:events';
import { expect, test } from 'vitest';
import { InFlight, TooManyInFlight } from '../src/inFlight.ts';

const open = () => Object.assign(new EventEmitter(), { closed: false });

test('the responses of all users are counted, and those of each user limited, unless they are closed', () => {
  const lists = new InFlight('lists', 3);
  const responses = Array.from({ length: 3 }, open);
  for (const response of responses) lists.add('alice', response);
  const another = open();
  expect(() => lists.add('alice', another)).toThrow(TooManyInFlight);
  const ofBob = open();
  lists.add('bob', ofBob);
  expect(lists.total).toBe(4);
  responses.pop()?.emit('close');
  lists.add('alice', another);
  expect(() => lists.add('alice', open())).toThrow(TooManyInFlight);
  for (const response of [...responses, another, ofBob]) response.emit('close');
  expect(lists.add('alice', Object.assign(open(), { closed: true }))).toBe(false);
  expect(lists.total).toBe(0);
});
