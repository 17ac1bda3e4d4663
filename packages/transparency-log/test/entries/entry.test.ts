import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { describeEntry, eventOfEntry } from '../../src/entries/entry.ts';
import { type LeafEvent, leafText } from '../../src/entries/leaf.ts';

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
    [
      'that is nested too deeply to be compared',
      Buffer.from(
        `{"data":${'['.repeat(9_000)}1e999${']'.repeat(9_000)},"id":"1","revision":"0","stream":"","type":""}`,
      ),
      'an entry of',
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
