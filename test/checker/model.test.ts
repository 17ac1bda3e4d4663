import { describe, expect, test } from 'vitest';
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

const [FERN, OAK, IVY] = PLANTS.map(({ user, plant, name, position, requestedAt }) =>
  at(requestedAt, { kind: 'create', user, plant, name }, { created: position }),
) as [Operation, Operation, Operation];
const CREATED = [FERN, OAK, IVY];

const list = (user: string): Request => ({ kind: 'list', user });
const checkpoint: Request = { kind: 'checkpoint' };
const replay: Request = { kind: 'replay', after: 0n };
const newest: Request = { kind: 'newest', limit: 10, pages: 1 };
const receipt: Request = { kind: 'receipt', user: 'bob', plant: 1 };
const listed = (position: bigint, ...names: string[]): Response => ({ names, position });
const replayed = (...positions: bigint[]): Response => ({ replayed: positions, head: undefined });
const receiptOf = (index: number, size: number, root = `root ${size}`, stream = 'plant-bob/1'): Response => ({
  receipt: { index, stream, head: { size, root } },
});
const signed = (size: number, root = `root ${size}`): Response => ({ signed: { size, root } });
const another: Request = { kind: 'create', user: 'alice', plant: 1, name: 'Moss' };

test.each<[string, Request, Response, Partial<Operation>?]>([
  ['a list of what the user has', list('alice'), listed(30n, 'Fern', 'Ivy')],
  ['an earlier list on another instance', list('alice'), listed(0n), { instance: 1 }],
  ['a list before the view was ever read', list('alice'), { error: 50302 }],
  ['a whole replay', replay, { replayed: [10n, 20n, 30n], head: { size: 3, root: 'root 3' } }],
  ['a replay that breaks off', replay, { error: 'cut' }],
  ['the newest events', newest, { newest: [30n, 20n], isEnd: false }],
  ['a receipt in an earlier tree', receipt, receiptOf(1, 2)],
  ['a checkpoint', checkpoint, signed(2)],
  ['another plant with a known ID to be refused', another, { error: 40003 }],
  ['a store that is unavailable', another, { error: 50301 }],
])('after three plants, the log allows %s', (_, request, response, more) => {
  expect(violationIn([...CREATED, at(9, request, response, more)], LOG)).toBeUndefined();
});

describe('after three plants, the log does not allow', () => {
  test.each<[string, Request, Response, RegExp, Partial<Operation>?]>([
    ['a plant that it does not have', another, { created: 40n }, /has it with the name Fern/],
    ['a plant at another position', FERN.request, { created: 20n }, /at position 10/],
    ['a list without an acknowledged plant', list('alice'), listed(10n, 'Fern'), /2 are known/],
    ['a list in another order', list('alice'), listed(30n, 'Ivy', 'Fern'), /not the beginning/],
    ['a list that is not that of its position', list('alice'), listed(30n, 'Fern'), /up to its position/],
    [
      'a list without what its client knows of',
      { kind: 'list', user: 'alice', named: 30n },
      listed(10n, 'Fern'),
      /2 are known/,
      { instance: 1 },
    ],
    [
      'a list of an empty view at the end',
      list('bob'),
      listed(0n),
      /1 are known/,
      { instance: 1, isFinal: true },
    ],
    ['a replay with a gap', replay, replayed(10n, 30n), /consecutive/],
    [
      'a replay that ends before its checkpoint',
      replay,
      { replayed: [10n, 20n, 30n], head: { size: 4, root: '' } },
      /ends after 3/,
    ],
    ['a replay from a valid position to be refused', replay, { error: 40005 }, /40005/],
    ['newest pages that end too early', newest, { newest: [30n, 20n], isEnd: true }, /before the start/],
    ['newest pages with a gap', newest, { newest: [30n, 10n], isEnd: true }, /consecutive/],
    ['a receipt of another event', receipt, receiptOf(0, 3), /another event 0/],
    ['a receipt of another entry', receipt, receiptOf(1, 3, 'root 3', 'plant-bob/2'), /plant-bob\/2/],
    ['another root', checkpoint, signed(3, 'other'), /another root/],
    [
      'another plant with a new ID to be refused',
      { ...another, plant: 7 } as Request,
      { error: 40003 },
      /40003/,
    ],
    ['an internal error', list('alice'), { error: 50001 }, /50001/],
  ])('%s', (_, request, response, why, more) => {
    const operation = at(9, request, response, more);
    const violation = violationIn([...CREATED, operation], LOG);
    expect(violation).toEqual({ operation, why: expect.stringMatching(why) });
  });

  const shown: [string, Operation][] = [
    ['created', IVY],
    ['listed', at(7, list('alice'), listed(30n, 'Fern', 'Ivy'))],
    ['listed for another user', at(7, list('bob'), listed(30n, 'Oak'))],
    ['replayed', at(7, replay, replayed(10n, 20n, 30n))],
    ['replayed from a later position', at(7, { kind: 'replay', after: 20n }, replayed(30n))],
    ['on the newest page', at(7, newest, { newest: [30n], isEnd: false })],
    ['in a receipt', at(7, receipt, receiptOf(1, 3))],
    ['in a checkpoint', at(7, checkpoint, signed(3))],
    [
      'refused, since its ID was taken',
      at(7, { kind: 'create', user: 'alice', plant: 2, name: 'Moss' }, { error: 40003 }),
    ],
  ];
  const gone: [string, Request, Response, RegExp][] = [
    ['a replay', replay, replayed(10n, 20n), /has 2 events, and 3 are known/],
    ['an empty replay', replay, replayed(), /has 0 events, and 3 are known/],
    ['an empty newest page', newest, { newest: [], isEnd: true }, /has 0 events, and 3 are known/],
    ['no receipt', { kind: 'receipt', user: 'alice', plant: 2 }, { error: 40402 }, /40402/],
  ];
  describe.each(shown)('once a plant was %s', (_, earlier) => {
    test.each(gone)('%s without it, on any instance', (_, request, response, why) => {
      const without = (instance: number) => at(9, request, response, { instance });
      const judge = (operation: Operation) => violationIn([earlier, operation], LOG)?.why;
      for (const instance of [0, 1]) expect(judge(without(instance))).toMatch(why);
      expect(judge({ ...without(1), start: earlier.end - 0.1 })).toBeUndefined();
    });
  });

  test('a malformed response', () => {
    for (const { request } of [...CREATED, ...shown.map(([, operation]) => operation)]) {
      const malformed = at(9, request, { error: 'malformed', why: 'it is no JSON' });
      expect(violationIn([malformed], LOG)?.why).toMatch(/malformed/);
    }
  });

  const LONG = at(7, list('alice'), listed(30n, 'Fern', 'Ivy'));
  const SHORT = at(8, list('alice'), listed(10n, 'Fern'));
  const ofBob = at(7, list('bob'), listed(30n, 'Oak'));
  const again = PLANTS.slice(0, 1).map((plant) => ({ ...plant, position: 40n }));
  test.each<[string, Operation[], RegExp | undefined, Partial<Log>?]>([
    ['a plant twice', [FERN], /more than once/, { plants: [...PLANTS, ...again] }],
    ['a plant before it was requested', [FERN, { ...LONG, start: 4, end: 4.5 }], /before that was requested/],
    ['a list of an instance that goes back', [LONG, SHORT], /2 are known/],
    ['a list that lacks what the instance has listed for another user', [ofBob, SHORT], /2 are known/],
    ['(unless another instance has)', [ofBob, { ...SHORT, instance: 1 }], undefined],
    [
      'a checkpoint of an instance that goes back',
      [at(7, checkpoint, signed(3)), at(8, checkpoint, signed(2))],
      /3 are known/,
    ],
  ])('%s', (_, operations, why, log) => {
    const violation = violationIn(operations, { ...LOG, ...log });
    expect(violation?.why).toEqual(why && expect.stringMatching(why));
  });

  test('a list to be refused, although the view has what its user knows of; unless that is on its way, or after a restart', () => {
    const read = at(7, list('bob'), listed(20n, 'Oak'));
    const refused = (user: string, more = {}) => at(9, list(user), { error: 50302 }, more);
    expect(violationIn([...CREATED, read, refused('bob')], LOG)?.why).toMatch(/50302/);
    expect(violationIn([...CREATED, read, refused('alice')], LOG)).toBeUndefined();
    expect(violationIn([...CREATED, read, refused('bob', { run: 2 })], LOG)).toBeUndefined();
    expect(
      violationIn([FERN, OAK, { ...IVY, start: 9.1, end: 9.2 }, read, refused('alice', { end: 10 })], LOG),
    ).toBeUndefined();
  });
});

test('the shortest history is what shows a violation', () => {
  const operations = [
    ...CREATED,
    at(6, list('bob'), listed(20n, 'Oak')),
    at(8, replay, replayed(10n, 20n)),
    at(9, checkpoint, signed(3)),
  ];
  const violation = violationIn(operations, LOG);
  expect(violation && shortest(operations, LOG, violation)).toEqual([IVY, operations[4]]);
});
