import { setImmediate as nextTurn } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { FairQueue, TurnBudget } from '../../src/time/fairQueue.ts';

/** Who gets a turn in each turn of the event loop, until these callers have had theirs. */
async function taken(
  fairQueue: FairQueue,
  callers: readonly [user: string, caller: string][],
): Promise<string[]> {
  const inTurn: string[] = [];
  let all: string[] = [];
  const ended = Promise.all(
    callers.map(([user, caller]) => fairQueue.next(user).then(() => inTurn.push(caller))),
  );
  while (all.length < callers.length) {
    await nextTurn();
    expect(inTurn.length).toBeLessThanOrEqual(1);
    all = all.concat(inTurn.splice(0));
  }
  await ended;
  return all;
}

test('each caller of a user gets a turn of its own, in the order of the calls', async () => {
  const callers: [string, string][] = ['a1', 'a2', 'a3'].map((caller) => ['alice', caller]);
  const fairQueue = new FairQueue();
  for (const _ of ['first', 'again']) expect(await taken(fairQueue, callers)).toEqual(['a1', 'a2', 'a3']);
});

test('users take turns in rotation', async () => {
  const callers: [string, string][] = [
    ...['a1', 'a2', 'a3'].map((caller): [string, string] => ['alice', caller]),
    ['bob', 'b1'],
    ['carol', 'c1'],
    ['bob', 'b2'],
  ];
  expect(await taken(new FairQueue(), callers)).toEqual(['a1', 'b1', 'c1', 'a2', 'b2', 'a3']);
});

test('a caller that repeatedly requests turns gets one, then the other users get theirs', async () => {
  const fairQueue = new FairQueue();
  const order: string[] = [];
  const repeat = async (user: string, times: number): Promise<void> => {
    for (let i = 0; i < times; i++) {
      await fairQueue.next(user);
      order.push(user);
    }
  };
  await Promise.all([repeat('alice', 3), repeat('bob', 3)]);
  expect(order).toEqual(['alice', 'bob', 'alice', 'bob', 'alice', 'bob']);
});

test('small work shares a turn until it is full', async () => {
  const fairQueue = new FairQueue();
  const inTurn: string[] = [];
  const shares = { a: 0.25, b: 0.75, c: 0.5, d: 1, e: 0.01, f: 0.01 };
  for (const [user, share] of Object.entries(shares))
    void fairQueue.next(user, share).then(() => inTurn.push(user));
  for (const users of [['a', 'b'], ['c', 'd'], ['e', 'f'], []]) {
    await nextTurn();
    expect(inTurn.splice(0)).toEqual(users);
  }
});

test('a budget is spent until the next turn', async () => {
  const budget = new TurnBudget(10);
  for (const _ of ['this turn', 'the next one']) {
    budget.spend(9);
    expect(budget.isSpent).toBe(false);
    budget.spend(1);
    expect(budget.isSpent).toBe(true);
    await nextTurn();
    expect(budget.isSpent).toBe(false);
  }
});
