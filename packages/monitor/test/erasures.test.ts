import { describe, expect, test } from 'vitest';
import { formatEntryBundle } from '../../tlog/src/notes/entryBundle.ts';
import { NEW_STATE } from '../src/state.ts';
import { alarmOf, check } from './checking.ts';
import { FakeEventLog, plant, plants, record } from './fakeEventLog.ts';
import { FakeLog } from './fakeLog.ts';

const EVENTS = { events: true };
const ALL = { events: true, all: true };

/** The state after a check without an alarm, and its totals. */
async function read(log: FakeLog, state = NEW_STATE, options: object = EVENTS) {
  const { found, error, last, slept } = await check(log, state, options);
  if (!found) throw error;
  return { state: found.state, events: found.events, last, slept };
}

const alarm = async (log: FakeLog, state = NEW_STATE, options: object = EVENTS) => {
  const { message, files } = await alarmOf(log, state, options);
  return { message, files };
};

describe('a monitor with --events', () => {
  test('compares each event with its entry, once, and reads on from the last position', async () => {
    const log = new FakeEventLog(plants(300)).signing(200);
    const { state, events } = await read(log);
    expect(events).toEqual({ index: 200, position: '200', unnamed: [], erased: 0, records: 0, neverRead: 0 });
    expect((await read(log.signing(300), state)).events).toMatchObject({ index: 300, position: '300' });
    expect(log.queries).toEqual([{ after: '0' }, { after: '200' }]);
    await read(log, state, ALL);
    expect(log.queries.at(-1)).toEqual({ after: '0' });
  });

  test('reads all events of a log whose entries were compared without them', async () => {
    const log = new FakeEventLog(plants(3));
    const { state } = await read(log, NEW_STATE, {});
    expect(log.queries).toEqual([]);
    expect((await read(log, state)).events).toMatchObject({ index: 3 });
  });

  test('raises an alarm for an altered event, with its line', async () => {
    const log = new FakeEventLog(plants(5));
    log.shown[3] = { ...plant(4, 'Fren'), position: 4n };
    const { message, files } = await alarm(log);
    expect(message).toMatch(
      /^mismatch: in \/events, the event at index 3 has the entry [\da-f]{64}; its entry is [\da-f]{64}$/,
    );
    expect(JSON.parse(files['event.json'] as string)).toMatchObject({ data: { name: 'Fren' } });
  });

  test('raises an alarm for a left out event, or a line that is no event', async () => {
    const log = new FakeEventLog(plants(5));
    log.shown.splice(2, 1);
    expect((await alarm(log)).message).toMatch(/^mismatch: in \/events, the event at index 2 /);
    log.events = async function* () {
      yield 'Fern';
    };
    expect((await alarm(log)).message).toMatch(/^mismatch: in \/events, the event at index 0 is malformed/);
  });

  test('does not check a log that shows fewer events than it has signed, or none', async () => {
    const log = new FakeEventLog(plants(5));
    log.shown.pop();
    expect((await check(log, NEW_STATE, EVENTS)).error).toMatchObject({
      name: 'NotChecked',
      message: '/events shows 4 events, fewer than the 5 that are signed',
    });
    expect((await check(new FakeLog(['Fern']), NEW_STATE, EVENTS)).error).toMatchObject({
      name: 'NotChecked',
    });
  });

  test('passes if one attempt gets an altered event', async () => {
    const log = new FakeEventLog(plants(5));
    const { events } = log;
    log.events = async function* () {
      log.events = events;
      yield '{}';
    };
    const { found, notices } = await check(log, NEW_STATE, EVENTS);
    expect(found?.events).toMatchObject({ index: 5 });
    expect(notices).toEqual([
      expect.stringMatching(/^the check has passed when it was repeated, after mismatch: /),
    ]);
  });
});

describe('a recorded erasure', () => {
  const log = () => new FakeEventLog([...plants(9), record(2, 4)]).erase(2, 4);

  test('is no alarm, and is counted', async () => {
    const { events, slept } = await read(log());
    expect(events).toMatchObject({ unnamed: [], erased: 2, records: 1, neverRead: 2 });
    expect(slept).toEqual([]);
  });

  test('of events that were read before is confirmed by their stubs', async () => {
    const before = await read(new FakeEventLog([...plants(9), record(2, 4)]).signing(9));
    expect((await read(log(), before.state)).events).toMatchObject({ erased: 2, records: 1, neverRead: 0 });
  });

  test('keeps its totals with --all, which reads stubs again', async () => {
    const before = await read(new FakeEventLog([...plants(9), record(2, 4)]).signing(9));
    const { state } = await read(log(), before.state);
    const again = await read(log(), state, ALL);
    expect(again.events).toMatchObject({ erased: 2, records: 1, neverRead: 0 });
    expect((await read(log(), NEW_STATE, ALL)).events).toMatchObject({ neverRead: 2 });
  });

  test('while events are read is no alarm', async () => {
    const running = new FakeEventLog([...plants(9), record(2, 7)]);
    const { events } = running;
    running.events = async function* (query) {
      for await (const line of events.call(running, query)) {
        yield line;
        if (JSON.parse(line).position === '5') running.erase(2, 7);
      }
    };
    expect((await read(running)).events).toMatchObject({ erased: 2, records: 1, neverRead: 1 });
  });

  test('may be named by further records', async () => {
    const twice = new FakeEventLog([...plants(9), record(2), record(2, 4)]).erase(2, 4);
    expect((await read(twice)).events).toMatchObject({ erased: 2, records: 2 });
  });
});

describe('an alarm is raised for', () => {
  test('a stub that no record names', async () => {
    const { message, files } = await alarm(new FakeEventLog(plants(9)).erase(2));
    expect(message).toBe(
      'unrecorded erasure: at index 2 of 9 events: no later record names this erased event; 1 such event',
    );
    expect(files['stubs.txt']).toMatch(/^2 [\da-f]{64} 9\n$/);
  });

  test('an erasure whose record precedes it', async () => {
    expect((await alarm(new FakeEventLog([record(1), ...plants(3)]).erase(1))).message).toMatch(
      /^false record: at index 0 of 4 events: it names index 1, which does not precede it/,
    );
  });

  test('a record that names an event that is still there', async () => {
    const { message, files } = await alarm(new FakeEventLog([...plants(9), record(2, 4)]).erase(2));
    expect(message).toBe(
      'false record: at index 9 of 10 events: it names index 4, whose event is not erased; 1 such event',
    );
    expect(files['records.txt']).toBe('9 it names index 4, whose event is not erased\n');
  });

  test('a record that names an event of an earlier check, which is still there', async () => {
    const log = new FakeEventLog([...plants(9), record(2)]);
    const { state } = await read(log.signing(9));
    expect((await alarm(log.signing(10), state)).message).toMatch(/^false record: at index 9 /);
  });

  test('an event that was put back, with --all only', async () => {
    const { state } = await read(new FakeEventLog([...plants(9), record(2)]).erase(2));
    const restored = new FakeEventLog([...plants(9), record(2), plant(10)]);
    expect((await read(restored, state)).events).toMatchObject({ index: 11 });
    expect((await alarm(restored, state, ALL)).message).toMatch(/^false record: at index 9 .*names index 2/);
  });

  test('a stub in the place of an event that was read, with --all only', async () => {
    const { state } = await read(new FakeEventLog(plants(9)));
    const hidden = new FakeEventLog(plants(10)).erase(2);
    expect((await read(hidden, state)).events).toMatchObject({ index: 10 });
    expect((await alarm(hidden, state, ALL)).message).toMatch(/^unrecorded erasure: at index 2 /);
  });

  test.each([
    ['a record that was erased before it was read', 0],
    ['a record that was erased after it was read', 10],
  ])('%s', async (_, before) => {
    const events = [...plants(9), record(2), record(2, 9)];
    const { state } = await read(new FakeEventLog(events).erase(...(before ? [2] : [])).signing(before));
    expect((await alarm(new FakeEventLog(events).erase(2, 9), state)).message).toBe(
      'unrecorded erasure: at index 9 of 11 events: this erased event was a record of erased events; 1 such event',
    );
  });

  test('a malformed record', async () => {
    const malformed = { ...record(2), data: { erased: [2], log: 's1' } };
    expect((await alarm(new FakeEventLog([...plants(9), malformed]))).message).toMatch(
      /^false record: at index 9 of 10 events: it is malformed/,
    );
  });

  test('a record whose data is not what is hashed', async () => {
    const unusual = { ...record(2), data: { erased: [2], name: '\ud800' } };
    const log = new FakeEventLog([...plants(9), unusual]).erase(2);
    const { events } = log;
    log.events = async function* (query) {
      for await (const line of events.call(log, query))
        yield line.replace(/"erased":\[2\],"name":"[^"]*"/, '"erased":[2]');
    };
    expect((await alarm(log)).message).toMatch(/^false record: at index 9 of 10 events: it is malformed/);
  });
});

describe('a stub whose record is not signed yet', () => {
  const events = [...plants(9), record(2), ...plants(3)];

  test('is judged by the next checkpoint, which the monitor waits for', async () => {
    const log = new FakeEventLog(events).erase(2).signing(9);
    const sleep = async () => void log.signing(13);
    const { found } = await check(log, NEW_STATE, { ...EVENTS, sleep });
    expect(found).toMatchObject({
      checkpoint: { size: 13 },
      added: 13,
      state: { compared: { size: 13 }, events: { index: 13, erased: 1, unnamed: [] } },
    });
  });

  test('is not checked if there is none in half a minute, and the next check continues', async () => {
    const log = new FakeEventLog(events).erase(2).signing(9);
    const { error, slept, last } = await check(log, NEW_STATE, EVENTS);
    expect(error).toMatchObject({
      name: 'NotChecked',
      message:
        'an event was erased, and the log has yet to sign the 13 events that it shows, with the record',
    });
    expect(slept).toHaveLength(30);
    expect(last).toMatchObject({
      compared: { size: 9 },
      events: { index: 9, unnamed: [{ index: 2, due: 13 }] },
    });
    expect((await read(log.signing(13), last)).events).toMatchObject({
      unnamed: [],
      erased: 1,
      neverRead: 1,
    });
  });

  test('is an alarm if the log has reached the size by which the record is due, and only then', async () => {
    const log = new FakeEventLog(plants(20)).erase(2).signing(9);
    log.shown.length = 13;
    const { last } = await check(log, NEW_STATE, EVENTS);
    const { error, last: later } = await check(log.signing(12), last, EVENTS);
    expect(error).toMatchObject({ name: 'NotChecked' });
    log.shown.length = 0;
    log.shown.push(...new FakeEventLog(plants(20)).erase(2).shown);
    expect((await alarm(log.signing(14), later)).message).toMatch(/^unrecorded erasure: at index 2 of 14 /);
  });

  test('is judged also if the log once showed too many lines, of which only events count', async () => {
    const log = new FakeEventLog(plants(9)).erase(2);
    const { events } = log;
    const padded = (line: string) =>
      async function* (query: object) {
        yield* events.call(log, query);
        for (let i = 0; i < 50; i++) yield line;
      };
    log.events = padded('');
    expect((await alarm(log, NEW_STATE)).message).toMatch(/^unrecorded erasure: at index 2 of 9 /);
    for await (const first of events.call(log, {})) log.events = padded(first);
    const { error, last } = await check(log, NEW_STATE, EVENTS);
    expect(error).toMatchObject({ name: 'NotChecked' });
    log.events = events;
    expect((await alarm(log, last)).message).toMatch(/^unrecorded erasure: at index 2 of 9 /);
  });

  test('does not count an invented stub and record after the signed size', async () => {
    const log = new FakeEventLog(plants(9));
    const invented = new FakeEventLog([...plants(9), record(2)]).erase(2);
    log.events = (query) => invented.events(query);
    const { error, last } = await check(log, NEW_STATE, EVENTS);
    expect(error).toMatchObject({ name: 'NotChecked' });
    expect(last.events?.unnamed).toMatchObject([{ index: 2, due: 10 }]);
    const grown = new FakeEventLog(plants(10));
    grown.events = async function* (query) {
      yield* new FakeEventLog(plants(10)).erase(2).events(query);
    };
    expect((await alarm(grown, last)).message).toMatch(/^unrecorded erasure: at index 2 of 10 /);
  });
});

describe('a log of others, without --events,', () => {
  test('may have any entries, such as ones that look like stubs', async () => {
    const stub = '{"erased":"9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"}';
    expect((await check(new FakeLog(['Fern', stub, 'Moss']))).error).toBeUndefined();
  });

  test('must have the hash of each entry in its tree, whatever it says about erased ones', async () => {
    const log = new FakeLog(['Fern', 'Moss', 'Oak']);
    const stub = Buffer.from(`{"erased":"${'9f'.repeat(32)}"}`);
    log.entries = async () => formatEntryBundle(log.log.with(1, stub));
    expect((await alarmOf(log)).message).toBe(
      'mismatch: the entry at index 1 does not have its hash in the tree',
    );
  });
});
