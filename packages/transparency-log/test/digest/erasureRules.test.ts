import { describe, expect, test } from 'vitest';
import { ErasureRules } from '../../src/digest/erasureRules.ts';

const EVENT = { type: 'Created', data: {} };
const stub = (type = 'Created') => ({ sha256: 'a'.repeat(64), type });
const record = (...erased: number[]) => ({ type: 'EventsErased', data: { erased } });
type Entry = ReturnType<typeof record> | ReturnType<typeof stub> | typeof EVENT;

/** The rules after these events, from an index on. */
function read(events: readonly Entry[], { from = 0, rules = new ErasureRules() } = {}): ErasureRules {
  for (const [i, event] of events.entries())
    if ('sha256' in event) rules.add(from + i, { type: 'EventErased', data: event }, event);
    else rules.add(from + i, event);
  return rules;
}
const problemsOf = (...events: Entry[]) => read(events).problems();

const unrecorded = (index: number, problem = 'no later record names this erased event') => {
  return { kind: 'unrecorded erasure', index, problem };
};
const falseRecord = (index: number, problem: string) => ({ kind: 'false record', index, problem });
const notErased = (name: number) => `it names index ${name}, whose event is not erased`;

test('erased events that later records name are no problem, and are counted', () => {
  const rules = read([stub(), EVENT, stub(), record(0), record(0, 2), EVENT]);
  expect(rules.problems()).toEqual([]);
  expect([rules.erased, rules.records]).toEqual([2, 2]);
});

describe('rule 1', () => {
  test('an erased event must be named', () => {
    expect(problemsOf(EVENT, stub(), EVENT)).toEqual([unrecorded(1)]);
  });

  test('by a later record', () => {
    expect(problemsOf(record(1), stub(), EVENT)).toEqual([
      falseRecord(0, 'it names index 1, which does not precede it'),
      unrecorded(1),
    ]);
  });
});

describe('rule 2', () => {
  test('a record must not name what is there: a blanket record, or an event that was put back', () => {
    expect(problemsOf(EVENT, stub(), record(0, 1))).toEqual([falseRecord(2, notErased(0))]);
  });

  test('of several false records, the first one counts', () => {
    expect(problemsOf(EVENT, record(0), record(0))).toEqual([falseRecord(1, notErased(0))]);
  });

  test('a record must not name itself, or what follows it', () => {
    for (const names of [[1], [0, 1], [0, 7]])
      expect(problemsOf(stub(), record(...names))).toEqual([
        falseRecord(1, `it names index ${names.at(-1)}, which does not precede it`),
        unrecorded(0),
      ]);
  });

  test('a record must be well-formed', () => {
    const malformed = { type: 'EventsErased', data: { erased: [0], more: 1 } as never };
    expect(problemsOf(stub(), malformed)).toEqual([falseRecord(1, 'it is malformed'), unrecorded(0)]);
  });

  test('what was read as an event may have been erased since, and is read again', () => {
    const rules = read([EVENT, EVENT, record(0, 1)]);
    expect([...rules.unconfirmed]).toEqual([
      [0, 2],
      [1, 2],
    ]);
    rules.confirm(0, stub());
    expect(rules.problems()).toEqual([falseRecord(2, notErased(1))]);
    rules.confirm(1, stub());
    expect([rules.problems(), rules.erased, rules.records]).toEqual([[], 2, 1]);
  });
});

test('rule 3: no erased event was a record, also if a record names it', () => {
  const erasedRecord = unrecorded(1, 'this erased event was a record of erased events');
  expect(problemsOf(stub(), stub('EventsErased'), record(0, 1))).toEqual([erasedRecord]);
});

test('rule 3 holds for what was erased after it was read', () => {
  const rules = read([EVENT, record(0), EVENT, record(1)]);
  rules.confirm(0, stub());
  rules.confirm(1, stub('EventsErased'));
  expect(rules.problems()).toEqual([unrecorded(1, 'this erased event was a record of erased events')]);
});

test('an erased event of the type of erased events is an erased event', () => {
  expect(problemsOf(stub('EventErased'), record(0))).toEqual([]);
});

describe('a later run', () => {
  test('knows the erased events that no record had named', () => {
    const rules = new ErasureRules([3]);
    expect([rules.problems(), read([EVENT, record(3)], { from: 5, rules }).problems()]).toEqual([
      [unrecorded(3)],
      [],
    ]);
  });

  test('reads again what an earlier run has read', () => {
    const rules = read([record(2)], { from: 5 });
    expect(rules.problems()).toEqual([falseRecord(5, notErased(2))]);
    rules.confirm(2, stub());
    expect(rules.problems()).toEqual([]);
  });
});
