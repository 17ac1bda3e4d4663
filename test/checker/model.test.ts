import { expect, test } from 'vitest';
import type { Operation, Request, Response } from './history.ts';
import { type Log, shortest, violationIn } from './model.ts';

const PLANTS = [
  { user: 'alice', plant: 1, name: 'Fern', position: 10n, requestedAt: 1 },
  { user: 'bob', plant: 1, name: 'Oak', position: 20n, requestedAt: 3 },
  { user: 'alice', plant: 2, name: 'Ivy', position: 30n, requestedAt: 5 },
];
const LOG: Log = { plants: PLANTS, roots: ['root 0', 'root 1', 'root 2', 'root 3'] };

/** An operation that starts at this place in the history, and ends right after it. */
const at = (
  start: number,
  request: Request,
  response: Response,
  more: Partial<Operation> = {},
): Operation => ({
  instance: 0,
  run: 1,
  start,
  end: start + 0.5,
  isFinal: false,
  request,
  response,
  ...more,
});

const CREATED = PLANTS.map(({ user, plant, name, position, requestedAt }) =>
  at(requestedAt, { kind: 'create', user, plant, name }, { created: position }),
);

const list = (user: string): Request => ({ kind: 'list', user });
const replay: Request = { kind: 'replay', after: 0n };
const receipt: Request = { kind: 'receipt', user: 'bob', plant: 1 };
const listed = (position: bigint, ...names: string[]): Response => ({ names, position });
const receiptOf = (index: number): Response => ({
  receipt: { index, stream: 'plant-bob/1', head: { size: 3, root: 'root 3' } },
});
const another: Request = { kind: 'create', user: 'alice', plant: 1, name: 'Moss' };

test.each<[string, Request, Response, RegExp | undefined, Partial<Operation>?]>([
  ['allows a list of what the user has', list('alice'), listed(30n, 'Fern', 'Ivy'), undefined],
  ['allows an earlier list on another instance', list('alice'), listed(0n), undefined, { instance: 1 }],
  ['allows a replay that breaks off', replay, { error: 'cut' }, undefined],
  ['allows a receipt', receipt, receiptOf(1), undefined],
  ['allows an unavailable store', another, { error: 50301 }, undefined],
  ['forbids a plant that it does not have', another, { created: 40n }, /has it with the name Fern/],
  ['forbids a list without an acknowledged plant', list('alice'), listed(10n, 'Fern'), /2 are known/],
  ['forbids a list in another order', list('alice'), listed(30n, 'Ivy', 'Fern'), /not the beginning/],
  ['forbids a replay with a gap', replay, { replayed: [10n, 30n], head: undefined }, /consecutive/],
  ['forbids a receipt of another event', receipt, receiptOf(0), /another event 0/],
  ['forbids another root', { kind: 'checkpoint' }, { signed: { size: 3, root: 'other' } }, /another root/],
  ['forbids an internal error', list('alice'), { error: 50001 }, /50001/],
  ['forbids what is malformed', replay, { error: 'malformed', why: 'it is no JSON' }, /malformed/],
])('after three plants, the log %s', (_, request, response, why, more) => {
  const violation = violationIn([...CREATED, at(9, request, response, more)], LOG);
  expect(violation?.why).toEqual(why && expect.stringMatching(why));
});

test('the shortest history is what shows a violation', () => {
  const operations = [
    ...CREATED,
    at(6, list('bob'), listed(20n, 'Oak')),
    at(8, replay, { replayed: [10n, 20n], head: undefined }),
    at(9, { kind: 'checkpoint' }, { signed: { size: 3, root: 'root 3' } }),
  ];
  const violation = violationIn(operations, LOG);
  expect(violation && shortest(operations, LOG, violation)).toEqual([CREATED[2], operations[4]]);
});
