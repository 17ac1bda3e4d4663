import canonicalize from 'canonicalize';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { describeEntry, eventOfEntry } from '../../src/audit/entry.ts';
import { type LeafEvent, leafText } from '../../src/audit/leaf.ts';

const EVENT = {
  id: '0199',
  stream: 'plant-alice/1',
  revision: 0n,
  type: 'PlantCreated',
  data: { name: 'Fern 🌱' },
  metadata: { schemaVersion: 1 },
};
const entryOf = (event: Parameters<typeof leafText>[0]): Buffer => Buffer.from(leafText(event).text);

/** The leaf of a plant's event, padded to this length. */
function largePlant(length: number): string {
  const data = { id: '1', name: '', user: 'alice' };
  const metadata = { $correlationId: 'c', occurredAt: '2026-01-01T00:00:00.000Z', schemaVersion: 1 };
  const { text } = leafText({ ...EVENT, data, metadata });
  return text.replace('"name":""', `"name":"${'x'.repeat(length - text.length)}"`);
}

/** The event whose leaf a text is, by definition: its canonical JSON (RFC 8785) is the text. */
function parsedLeaf(text: string): LeafEvent | undefined {
  try {
    const { id, stream, revision, type, data, metadata } = JSON.parse(text);
    const isText = [id, stream, type].every((name) => typeof name === 'string');
    const number = BigInt(revision);
    const canonical = canonicalize({ id, stream, revision: String(number), type, data, metadata });
    return isText && canonical === text ? { id, stream, revision: number, type, data, metadata } : undefined;
  } catch {
    return undefined;
  }
}

describe('an entry', () => {
  test('is an event, if it is the canonical leaf of one', () => {
    expect(eventOfEntry(entryOf(EVENT))).toEqual(EVENT);
    const bare = { ...EVENT, data: undefined, metadata: undefined };
    expect(eventOfEntry(entryOf(bare))).toEqual(bare);
    const depth = 30_000;
    const deep = `{"data":${'['.repeat(depth)}${']'.repeat(depth)},"id":"","revision":"0","stream":"","type":""}`;
    expect(eventOfEntry(Buffer.from(deep))).toMatchObject({ id: '' });
    expect(eventOfEntry(Buffer.from(largePlant(65_535)))).toMatchObject({ id: '0199' });
    expect(describeEntry(entryOf(EVENT))).toBe('event "0199" of "plant-alice/1"');
  });

  test.each([
    ['of an event with binary data', entryOf({ ...EVENT, data: Buffer.of(255) }), 'event "0199" of'],
    ['of an event whose ID is not well-formed', entryOf({ ...EVENT, id: '\ud83c' }), 'an entry of'],
    [
      'of an event of 100 000 bytes',
      entryOf({ ...EVENT, data: { name: 'x'.repeat(1e5) } }),
      'an entry of 77',
    ],
    [
      'with a member twice',
      Buffer.from(leafText(EVENT).text.replace('"id"', '"id":"1","id"')),
      'an entry of',
    ],
    ['with spaces', Buffer.from(JSON.stringify(JSON.parse(leafText(EVENT).text), null, 1)), 'an entry of'],
    [
      'with an unknown member',
      Buffer.from('{"id":"1","note":"","revision":"0","stream":"s","type":"t"}'),
      'event',
    ],
    [
      'with another revision',
      Buffer.from('{"id":"1","revision":"00","stream":"s","type":"t"}'),
      'event "1" of',
    ],
    ['of a plant of more than 65 535 bytes', Buffer.from(largePlant(65_536)), 'event "0199" of'],
    ['that is not UTF-8', Buffer.of(34, 255, 34), 'an entry of 3 bytes'],
    [
      'whose data is not UTF-8',
      Buffer.from(entryOf({ ...EVENT, data: { name: 'F' } }).map((byte) => (byte === 0x46 ? 0xff : byte))),
      'event "0199" of',
    ],
    ['that is not an object', Buffer.from('[]'), 'an entry of 2 bytes'],
    ['that is not JSON', Buffer.from('Fern'), 'an entry of 4 bytes'],
    ['that is empty', Buffer.alloc(0), 'an entry of 0 bytes'],
  ])('%s is not an event in full', (_, entry, described) => {
    expect(eventOfEntry(entry)).toBeUndefined();
    expect(describeEntry(entry)).toContain(described);
  });

  test('of an event of this service is read like others, whatever was changed in it', () => {
    const plain = fc.constantFrom('', 'alice', '42', 'Fern 🌱', '{},:[]', '\u2028', '__proto__');
    const odd = fc.constantFrom('"', '\\', '\n');
    const text = fc.oneof({ weight: 20, arbitrary: plain }, { weight: 1, arbitrary: odd });
    const members = { id: text, user: text, name: text, tag: text };
    const data = fc.record(members, { requiredKeys: ['id', 'user', 'name'] });
    const metadata = fc.record(
      {
        $correlationId: text,
        schemaVersion: fc.constantFrom(1, 1, 0, -7, 1e15, 1e21),
        occurredAt: text,
        traceparent: text,
      },
      { requiredKeys: ['$correlationId', 'schemaVersion', 'occurredAt'] },
    );
    const type = fc.constantFrom('PlantCreated', 'PlantCreated', 'Other');
    const revision = fc.constantFrom(0n, 1n, -1n, 10n ** 18n);
    const event = fc.record({ id: text, stream: text, revision, type, data, metadata });
    const parts = ['', '"', '\\', '\\u0041', '\t', ' ', '\ufeff', 'null', '}', ','];
    const change = fc.oneof(
      fc
        .constantFrom('"revision":"-0', '"revision":"0', '"revision":" ')
        .map((other) => (leaf: string) => leaf.replace('"revision":"', other)),
      fc
        .constantFrom('-0', '01', '1.0', '1e3')
        .map((other) => (leaf: string) => leaf.replace('"schemaVersion":1', `"schemaVersion":${other}`)),
      fc
        .tuple(fc.double({ min: 0, max: 1, noNaN: true }), fc.nat(2), fc.constantFrom(...parts))
        .map(([place, removed, part]) => (leaf: string) => {
          const at = Math.round(place * leaf.length);
          return leaf.slice(0, at) + part + leaf.slice(at + removed);
        }),
    );
    let [events, others] = [0, 0];
    fc.assert(
      fc.property(event, fc.option(change, { freq: 2 }), (one, changed) => {
        const leaf = leafText(one).text;
        const entry = changed ? changed(leaf) : leaf;
        const found = eventOfEntry(Buffer.from(entry));
        expect(found).toEqual(parsedLeaf(entry.toWellFormed()));
        if (found) events++;
        else others++;
      }),
      { numRuns: 2_000, endOnFailure: true },
    );
    expect(events).toBeGreaterThan(500);
    expect(others).toBeGreaterThan(500);
  });

  test('is an event only if it is the leaf of that event, whatever it has', () => {
    const name = fc.constantFrom('', 'a', 'B', '9', '10', '__proto__', '\u20ac', '\ufb33', '\u{1f600}');
    const value = fc.letrec((tie) => ({
      any: fc.oneof(
        { depthSize: 'small' },
        fc.constantFrom<unknown>(null, 0, -0, 1e21, 'Fern', '"\0', '\\ud83c', '\ud83c'),
        fc.array(tie('any'), { maxLength: 2 }),
        fc.array(fc.tuple(name, tie('any')), { maxLength: 3 }).map(Object.fromEntries),
      ),
    })).any;
    const members = fc.record({ data: value, metadata: value }, { requiredKeys: [] });
    const layout = fc.constantFrom<(event: LeafEvent) => string>(
      (event) => leafText(event).text,
      ({ data, metadata }) => JSON.stringify({ data, id: '', metadata, revision: '0', stream: '', type: '' }),
      ({ data }) => JSON.stringify({ data, id: '', revision: '0', stream: '', type: '' }),
      ({ data }) => JSON.stringify({ data, id: '', revision: '0', stream: '', type: '', more: 1 }),
    );
    fc.assert(
      fc.property(members, layout, (content, textOf) => {
        const text = textOf({
          id: '',
          stream: '',
          type: '',
          revision: 0n,
          data: undefined,
          metadata: undefined,
          ...content,
        });
        const event = eventOfEntry(Buffer.from(text));
        const { data, metadata } = JSON.parse(text);
        const leaf = leafText({ id: '', stream: '', type: '', revision: 0n, data, metadata });
        expect(event && leafText(event).text).toBe(leaf.text === text && leaf.isCanonical ? text : undefined);
      }),
      { numRuns: 500 },
    );
  });
});
