import { describe, expect, test } from 'vitest';
import { type ComparedLog, type Contradiction, readLog } from '../page/readLog.ts';
import { FakeLog } from './fakeLog.ts';

/** What the page finds in a log, from its checkpoint of this size. */
const check = async (log: FakeLog, size = log.tree.size): Promise<ComparedLog> =>
  readLog(await log.tree.head(size), log.source);

/** The topic and the message of its alarm. */
async function alarm(log: FakeLog, size?: number): Promise<string> {
  const { topic, message }: Contradiction = await check(log, size).then(
    () => expect.fail('it finds nothing'),
    (error) => error,
  );
  return `${topic}: ${message}`;
}

test('each event is compared with its entry in the signed tree', async () => {
  const log = new FakeLog(...Array.from({ length: 300 }, (_, i) => `Fern ${i}`));
  expect(await check(log)).toEqual({ ...(await log.tree.head()), erased: 0, records: 0 });
  expect(await check(new FakeLog())).toMatchObject({ size: 0 });
});

test('erased events and their records are counted', async () => {
  const log = new FakeLog('Fern', 'Moss', 'Ivy');
  log.erase(0, 2);
  log.erase(1);
  expect(await check(log)).toMatchObject({ size: 5, erased: 3, records: 2 });
});

test('events after the signed size do not count', async () => {
  const log = new FakeLog('Fern', 'Moss', 'Ivy');
  log.shown[2] = log.eventOf('PlantCreated', { name: 'not signed' });
  expect(await check(log, 2)).toMatchObject({ size: 2 });
});

describe('there is an alarm', () => {
  test('for an altered event, with its line and both entries', async () => {
    const log = new FakeLog('Fern', 'Moss');
    Object.assign(log.shown[1] as object, { data: { name: 'Ivy' } });
    expect(await alarm(log)).toBe('tiles: the event at index 1 is not the one in the tree');
    const { facts, line } = await check(log).catch((error) => error);
    const entry = expect.stringMatching(/^[\da-f]{64}$/);
    expect(facts).toEqual([
      ['Index', '1'],
      ['Entry of the line', entry],
      ['Entry in the tree', entry],
    ]);
    expect(line).toContain('"name":"Ivy"');
  });

  test('for an altered event that was erased', async () => {
    const log = new FakeLog('Fern', 'Moss');
    Object.assign(log.shown[0] as object, { data: { name: 'Ivy' } });
    log.erase(0);
    expect(await alarm(log)).toBe('tiles: the event at index 0 is not the one in the tree');
  });

  test('for a stub whose ID does not follow from the entry', async () => {
    const log = new FakeLog('Fern');
    log.erase(0);
    Object.assign(log.shown[0] as object, { id: '00000000-0000-8000-8000-000000000000' });
    expect(await alarm(log)).toMatch(/^tiles: the event at index 0/);
  });

  test('for a log that shows fewer events than it has signed', async () => {
    const log = new FakeLog('Fern', 'Moss');
    log.shown.pop();
    expect(await alarm(log)).toBe(
      'lost: the service shows 1 event, fewer than the 2 that the log has signed',
    );
  });

  test('for an erasure without a record', async () => {
    const log = new FakeLog('Fern', 'Moss');
    log.hide(0);
    expect(await alarm(log)).toBe(
      'erasures: unrecorded erasure, index 0: no later record names this erased event',
    );
  });

  test('for an erasure without a record, also if lines follow that are no events', async () => {
    const log = new FakeLog('Fern', 'Moss');
    log.hide(0);
    const { lines } = log.source;
    log.source.lines = async function* (query) {
      yield* lines(query);
      for (let i = 0; i < 50; i++) yield '{}';
    };
    expect(await alarm(log)).toMatch(/^erasures: unrecorded erasure, index 0/);
  });

  test('for a record of an event that is still there, such as one that names everything', async () => {
    const log = new FakeLog('Fern', 'Moss');
    log.hide(0);
    log.record(0, 1);
    expect(await alarm(log)).toBe(
      'erasures: false record, index 2: it names index 1, whose event is not erased',
    );
  });

  test('for an event that was put back', async () => {
    const log = new FakeLog('Fern', 'Moss');
    const [fern] = log.shown;
    log.erase(0);
    Object.assign(log.shown, { 0: fern });
    expect(await alarm(log)).toMatch(/^erasures: false record, index 2: it names index 0/);
  });

  test('for an erased record, also if a later record names it', async () => {
    const log = new FakeLog('Fern', 'Moss');
    log.erase(0);
    log.hide(2);
    log.record(0, 2);
    expect(await alarm(log)).toBe(
      'erasures: unrecorded erasure, index 2: this erased event was a record of erased events',
    );
  });

  test('for a record that is erased while the log is read', async () => {
    const log = new FakeLog('Fern', 'Moss');
    log.erase(0);
    log.record(0, 2);
    log.beforeLine = (index) => index === 3 && log.hide(2);
    expect(await alarm(log)).toBe(
      'erasures: unrecorded erasure, index 2: this erased event was a record of erased events',
    );
  });

  test('for a record in an event whose data its entry does not cover', async () => {
    const log = new FakeLog('Fern', 'Moss');
    log.append('EventsErased', { erased: [1], name: '\ud800' });
    log.hide(0);
    const { lines } = log.source;
    log.source.lines = async function* (query) {
      for await (const line of lines(query))
        yield line.replace('"data":{"erased":[1],"name":"\\ud800"}', '"data":{"erased":[0]}');
    };
    expect(await alarm(log)).toMatch(/^erasures: false record, index 2: it is malformed/);
  });

  test('for a later log that does not begin with the signed one', async () => {
    const log = new FakeLog('Fern', 'Moss');
    const other = new FakeLog('Fern', 'Elm', 'Ivy');
    const source = { ...log.source };
    log.hide(0);
    source.lines = (query) => {
      if (query.after === undefined) return log.source.lines(query);
      Object.assign(source, other.source);
      return source.lines(query);
    };
    source.newest = () => other.tree.head();
    const { topic, message } = await readLog(await log.tree.head(), source).catch((error) => error);
    expect([topic, message]).toEqual(['evidence', 'the log of 3 events does not begin with its first 2']);
  });
});

describe('beside erasures that run, there is no alarm', () => {
  test('when the record of a stub follows the signed size: it reads on to a checkpoint that has the record', async () => {
    const log = new FakeLog('Fern', 'Moss');
    log.signed = 2;
    log.beforeLine = (index) => {
      if (index === 0) log.erase(0);
      log.beforeLine = () => {};
    };
    log.onPause = () => {
      log.signed = 3;
    };
    expect(await check(log)).toMatchObject({ size: 3, erased: 1, records: 1 });
  });

  test('when another event is erased while it reads on', async () => {
    const log = new FakeLog('Fern', 'Moss', 'Ivy');
    const steps: [line: number, step: () => void][] = [
      [0, () => log.erase(0)], // the record has index 3
      [3, () => log.append('PlantCreated', { name: 'Elm' })], // index 4
      [3, () => log.erase(4)], // the record has index 5
    ];
    log.beforeLine = (index) => index === steps[0]?.[0] && steps.shift()?.[1]();
    expect(await check(log)).toMatchObject({ size: 6, erased: 2, records: 2 });
  });

  test('when an event is erased after it was read', async () => {
    const log = new FakeLog('Fern', 'Moss');
    log.record(0);
    log.beforeLine = (index) => index === 2 && log.hide(0);
    expect(await check(log)).toMatchObject({ size: 3, erased: 1, records: 1 });
  });
});

test('a stub and an invented record after the signed size are not checked: no checkpoint has the record', async () => {
  const log = new FakeLog('Fern', 'Moss');
  log.hide(0);
  log.shown.push(log.eventOf('EventsErased', { erased: [0] }));
  let pauses = 0;
  log.onPause = () => void pauses++;
  const { name, message } = await check(log).catch((error) => error);
  expect(name).toBe('Error');
  expect(message).toContain('not checked: an event is erased, and its record may be among the 3 events');
  expect(pauses).toBe(29);

  // The log grows by another event.
  log.shown.pop();
  const record = log.eventOf('EventsErased', { erased: [0] });
  log.append('PlantCreated', { name: 'Ivy' });
  log.shown[2] = record;
  expect(await alarm(log, 2)).toBe('tiles: the event at index 2 is not the one in the tree');
});
