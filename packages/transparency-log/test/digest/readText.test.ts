import { hash } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import { NotVerified } from '../../../tlog/src/notes/notVerified.ts';
import { entryOf } from '../../src/digest/eventEntry.ts';
import { eventText } from '../../src/digest/eventText.ts';
import { describeEvent, readText } from '../../src/digest/readText.ts';

const EVENT = {
  id: '0199',
  stream: 'plant-alice/1',
  revision: 0n,
  type: 'PlantCreated',
  data: { name: 'Fern 🌱' } as unknown,
  metadata: { schemaVersion: 1 } as unknown,
};
const textOf = (part: object = {}): Buffer => Buffer.from(eventText({ ...EVENT, ...part }).text);
const TEXT = `${textOf()}`;

describe('the text of an event', () => {
  test('is read with its entry, for which its type counts', () => {
    const { event, entry } = readText(textOf());
    expect(event).toEqual({ ...EVENT, revision: '0' });
    expect(entry).toBe(entryOf({ sha256: hash('sha256', TEXT), type: 'PlantCreated' }));
    expect(describeEvent(event)).toBe('event "0199" of "plant-alice/1" with the data {"name":"Fern 🌱"}');
  });

  test.each([
    ['binary data', { data: Buffer.of(255) }, { dataAndMetadata: '[base64:/w==,{"schemaVersion":1}]' }],
    ['no data', { data: undefined }, { data: undefined }],
    ['an ID that is not well-formed', { id: '\ud83c' }, { id: '\ud83c', type: 'PlantCreated' }],
    ['a type that is not well-formed', { type: '\udf31' }, { type: '\udf31', stream: 'plant-alice/1' }],
    ['2 000 000 bytes', { data: { name: 'x'.repeat(2e6) } }, { id: '0199' }],
  ])('may be that of an event with %s', (_, part, expected) => {
    const { event, entry } = readText(textOf(part));
    expect(event).toMatchObject(expected);
    const { type } = { ...EVENT, ...part };
    expect(entry).toBe(entryOf({ sha256: hash('sha256', textOf(part)), type }));
  });

  test.each([
    ['with a member twice', TEXT.replace('"id"', '"id":"1","id"')],
    ['with its type twice', TEXT.replace(/}$/, ',"type":"EventsErased"}')],
    ['with spaces', JSON.stringify(JSON.parse(TEXT), null, 1)],
    ['in another order', JSON.stringify({ type: 'PlantCreated', ...JSON.parse(TEXT) })],
    ['with an unknown member', '{"id":"1","note":"","revision":"0","stream":"s","type":"t"}'],
    ['without a type', '{"id":"1","revision":"0","stream":"s"}'],
    ['with a number as its type', '{"id":"1","revision":"0","stream":"s","type":1}'],
    ['with a revision that is no number', '{"id":"1","revision":"0x1","stream":"s","type":"t"}'],
    [
      'with data twice',
      '{"data":{"erased":[0]},"dataAndMetadata":"[,]","id":"1","revision":"0","stream":"s","type":"t"}',
    ],
    [
      'with data and metadata that are no text',
      '{"dataAndMetadata":[],"id":"1","revision":"0","stream":"s","type":"t"}',
    ],
    ['with names, and no data and metadata', '{"names":"[\\"a\\",\\"b\\",\\"0\\",\\"t\\"]"}'],
    ['with names beside its type', '{"id":"1","names":"[]","revision":"0","stream":"s","type":"t"}'],
    ['with too few names', '{"dataAndMetadata":"[,]","names":"[\\"a\\",\\"b\\",\\"0\\"]"}'],
    ['with names in another form', '{"dataAndMetadata":"[,]","names":"[\\"a\\", \\"b\\",\\"0\\",\\"t\\"]"}'],
    [
      'that is nested too deeply to be compared',
      `{"data":${'['.repeat(9_000)}1e999${']'.repeat(9_000)},"id":"1","revision":"0","stream":"","type":""}`,
    ],
    ['that is not an object', '[]'],
    ['that is not JSON', 'Fern'],
    ['that is empty', ''],
  ])('is not a text %s', (_, text) => {
    expect(() => readText(Buffer.from(text))).toThrow(NotVerified);
  });

  test('is not text that is not UTF-8', () => {
    const bytes = Buffer.from(textOf().map((byte) => (byte === 0x46 ? 0xff : byte)));
    expect(() => readText(bytes)).toThrow('the text is not UTF-8');
  });
});
