import { describe, expect, test } from 'vitest';
import { describeEntry } from '../../src/entries/entry.ts';
import { leafText } from '../../src/entries/leaf.ts';

const EVENT = {
  id: '0199',
  stream: 'plant-alice/1',
  revision: 0n,
  type: 'PlantCreated',
  data: { name: 'Fern 🌱' },
  metadata: { schemaVersion: 1 },
};
const toEntry = (event: Parameters<typeof leafText>[0]): Buffer => Buffer.from(leafText(event).text);

/** The leaf of a plant's event, padded to this length. */
function largePlant(length: number): string {
  const data = { id: '1', name: '', user: 'alice' };
  const metadata = { $correlationId: 'c', occurredAt: '2026-01-01T00:00:00.000Z', schemaVersion: 1 };
  const { text } = leafText({ ...EVENT, data, metadata });
  return text.replace('"name":""', `"name":"${'x'.repeat(length - text.length)}"`);
}

describe('an entry', () => {
  test('is described by the event that it names, if it is the canonical leaf of one', () => {
    expect(describeEntry(toEntry(EVENT))).toBe(
      'event "0199" of "plant-alice/1" with the data {"name":"Fern 🌱"}',
    );
  });

  test.each([
    ['of an event with binary data', toEntry({ ...EVENT, data: Buffer.of(255) }), 'event "0199" of'],
    ['of an event whose ID is not well-formed', toEntry({ ...EVENT, id: '\ud83c' }), 'an entry of'],
    [
      'of an event of 100 000 bytes',
      toEntry({ ...EVENT, data: { name: 'x'.repeat(1e5) } }),
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
      Buffer.from(toEntry({ ...EVENT, data: { name: 'F' } }).map((byte) => (byte === 0x46 ? 0xff : byte))),
      'event "0199" of',
    ],
    ['that is not an object', Buffer.from('[]'), 'an entry of 2 bytes'],
    ['that is not JSON', Buffer.from('Fern'), 'an entry of 4 bytes, "Fern",'],
    ['that is empty', Buffer.alloc(0), 'an entry of 0 bytes'],
  ])('%s is described without what it may not have', (_, entry, described) => {
    expect(describeEntry(entry)).toContain(described);
  });
});
