import { hash } from 'node:crypto';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { toCloudEvent } from '../../../event-log/src/replay/cloudEvent.ts';
import { anyEvent, FERN, FORMAT } from '../../../event-log/test/replay/cloudEvents.ts';
import { cloudEventEntry } from '../../src/digest/cloudEventEntry.ts';
import { digestOf, entryOf, eventEntry, stubDigest, stubOf } from '../../src/digest/eventEntry.ts';
import { eventText } from '../../src/digest/eventText.ts';

const STUB = { position: 5n, ...stubOf(digestOf(FERN), 'plant-') };
const received = (event: typeof FERN) => JSON.parse(JSON.stringify(toCloudEvent(event, FORMAT)));

describe('the entry of an event', () => {
  test('is the SHA-256 of the digest of its text, and its type', () => {
    const sha256 = hash('sha256', eventText(FERN).text);
    expect(digestOf(FERN)).toEqual({ sha256, type: 'PlantCreated' });
    expect(eventEntry(FERN)).toBe(hash('sha256', `{"sha256":"${sha256}","type":"PlantCreated"}`));
  });

  test('escapes an unpaired surrogate in the type', () => {
    const sha256 = 'a'.repeat(64);
    expect(entryOf({ sha256, type: '\ud83c"' })).toBe(
      hash('sha256', `{"sha256":"${sha256}","type":"\\ud83c\\""}`),
    );
  });

  test('is that of its stub, which follows from the digest', () => {
    const entry = eventEntry(FERN);
    const id = STUB.id.replaceAll('-', '');
    expect(STUB).toEqual({
      position: 5n,
      stream: `plant-erased-${STUB.id}`,
      revision: 0n,
      id: expect.stringMatching(/^[\da-f]{8}-[\da-f]{4}-8[\da-f]{3}-[89ab][\da-f]{3}-[\da-f]{12}$/),
      type: 'EventErased',
      data: digestOf(FERN),
      metadata: {},
    });
    for (const i of [...Array(32).keys()].filter((at) => at !== 12 && at !== 16))
      expect([i, id[i]]).toEqual([i, entry[i]]);
    expect(eventEntry(STUB)).toBe(entry);
    expect(stubDigest(STUB)).toEqual(digestOf(FERN));
  });

  test('is that of its text for an event that only looks like a stub', () => {
    const id = 'ffffffff-ffff-8fff-bfff-ffffffffffff';
    const other = { ...STUB, id, stream: `plant-erased-${id}` };
    expect(stubDigest(other)).toBeUndefined();
    expect(eventEntry(other)).toBe(entryOf(digestOf(other)));
  });
});

describe('the line of an event in a replay', () => {
  test('has the entry of the event, whichever program wrote it', () => {
    fc.assert(
      fc.property(anyEvent(), (event) => {
        const { entry, digest } = cloudEventEntry(received(event));
        expect([entry, digest]).toEqual([eventEntry(event), undefined]);
      }),
      { numRuns: 200 },
    );
  });

  test('has the entry of a stub, and no metadata', () => {
    const line = received(STUB);
    expect(line).toMatchObject({ type: 'EventErased', erased: eventEntry(FERN), data: digestOf(FERN) });
    expect(line).not.toHaveProperty('metadata');
    expect(cloudEventEntry(line)).toEqual({
      entry: eventEntry(FERN),
      data: digestOf(FERN),
      digest: digestOf(FERN),
    });
  });

  test.each([
    { erased: '0'.repeat(64) },
    { data: { ...digestOf(FERN), type: 'PlantMoved' } },
    { data: { ...digestOf(FERN), more: 1 } },
    { id: 'ffffffff-ffff-8fff-bfff-ffffffffffff' },
    { subject: 'plant-erased-ffffffff-ffff-8fff-bfff-ffffffffffff' },
    { subject: 'plant-alice/1' },
    { revision: '1' },
    { type: 'PlantCreated' },
  ])('of a stub must follow from its digest: %j', (change) => {
    expect(() => cloudEventEntry({ ...received(STUB), ...change })).toThrow(
      'the line of an erased event is malformed',
    );
  });

  test('has data that the entry covers, and no other', () => {
    const bytes = received({ ...FERN, type: 'EventsErased', data: Uint8Array.of(1) });
    const { entry } = cloudEventEntry(bytes);
    const lying = { ...bytes, data: { erased: [0] } };
    expect(cloudEventEntry(lying)).toEqual({ entry, data: undefined });
  });
});
