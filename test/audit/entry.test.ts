import { describe, expect, test } from 'vitest';
import { describeEntry, eventOfEntry } from '../../src/audit/entry.ts';
import { leafText } from '../../src/audit/leaf.ts';

const EVENT = {
  id: '0199',
  stream: 'plant-alice/1',
  revision: 0n,
  type: 'PlantCreated',
  data: { name: 'Fern 🌱' },
  metadata: { schemaVersion: 1 },
};
const entryOf = (event: Parameters<typeof leafText>[0]): Buffer => Buffer.from(leafText(event).text);

describe('an entry', () => {
  test('is an event, if it is the canonical leaf of one', () => {
    expect(eventOfEntry(entryOf(EVENT))).toEqual(EVENT);
    const bare = { ...EVENT, data: undefined, metadata: undefined };
    expect(eventOfEntry(entryOf(bare))).toEqual(bare);
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
    ['that is not UTF-8', Buffer.of(34, 255, 34), 'an entry of 3 bytes'],
    ['that is not an object', Buffer.from('[]'), 'an entry of 2 bytes'],
    ['that is not JSON', Buffer.from('Fern'), 'an entry of 4 bytes'],
    ['that is empty', Buffer.alloc(0), 'an entry of 0 bytes'],
  ])('%s is not an event in full', (_, entry, described) => {
    expect(eventOfEntry(entry)).toBeUndefined();
    expect(describeEntry(entry)).toContain(described);
  });
});
