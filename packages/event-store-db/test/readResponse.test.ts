import { randomUUID } from 'node:crypto';
import streams from '@eventstore/db-client/generated/streams_pb.js';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { readResponse } from '../src/readResponse.ts';
import type { FakeEvent } from '../src/testing/log.ts';
import {
  caughtUp,
  confirmation,
  eventMessage,
  serverCheckpoint,
  streamNotFound,
} from '../src/testing/messages.ts';

const uint64 = fc.bigInt({ min: 0n, max: 2n ** 64n - 1n });
const bytes = fc.uint8Array({ maxLength: 300 });
const text = fc.string({ unit: 'grapheme' });

const eventOf = (parts: Partial<FakeEvent>): FakeEvent => ({
  position: 1n,
  stream: 'plant-alice/1',
  revision: 0n,
  id: randomUUID(),
  type: 'PlantCreated',
  contentType: 'application/json',
  data: Buffer.from('{}'),
  metadata: Buffer.alloc(0),
  created: 0,
  ...parts,
});

const encoded = (message: streams.ReadResp): Buffer => Buffer.from(message.serializeBinary());
const decoded = (message: streams.ReadResp) => readResponse(encoded(message));

test('an event is decoded exactly, whatever its values', () => {
  const parts = {
    position: uint64,
    revision: uint64,
    stream: text,
    type: text,
    data: bytes,
    metadata: bytes,
  };
  fc.assert(
    fc.property(fc.record(parts), fc.boolean(), (values, inAll) => {
      const at = eventOf({ ...values, contentType: 'application/octet-stream' });
      const { position, revision, stream, type, id, data } = at;
      const { event, length } = decoded(eventMessage(inAll, at));
      const { metadata: _, ...rest } = event ?? {};
      expect(rest).toStrictEqual({ position, revision, stream, type, id, data });
      expect(length).toBe(data.length + at.metadata.length);
    }),
  );
});

test('the data and the metadata of an event are parsed as JSON', () => {
  fc.assert(
    fc.property(fc.jsonValue(), fc.jsonValue(), (data, metadata) => {
      const toBytes = (value: unknown) => Buffer.from(JSON.stringify(value));
      const at = eventOf({ data: toBytes(data), metadata: toBytes(metadata) });
      const read = JSON.parse(JSON.stringify({ data, metadata })); // -0 becomes 0
      const { event } = decoded(eventMessage(true, at));
      expect({ data: event?.data, metadata: event?.metadata }).toEqual(read);
    }),
  );
});

test('a response without an event says what it is', () => {
  const at = eventOf({ position: 2n ** 63n });
  expect(decoded(serverCheckpoint(at))).toEqual({ searchedTo: at.position });
  expect(decoded(confirmation('1'))).toEqual({ isConfirmation: true });
  expect(decoded(streamNotFound('plant-alice/1'))).toEqual({ isStreamNotFound: true });
  expect(decoded(caughtUp())).toEqual({});
  const link = new streams.ReadResp.ReadEvent().setLink(eventMessage(true, at).getEvent()?.getEvent());
  expect(decoded(new streams.ReadResp().setEvent(link))).toEqual({});
});

test('fields of later versions are skipped', () => {
  const at = eventOf({});
  const later = Buffer.from([0x79, 1, 2, 3, 4, 5, 6, 7, 8, 0x7d, 1, 2, 3, 4, 0x78, 0x80, 1, 0x7a, 1, 0]);
  const message = encoded(eventMessage(true, at));
  expect(readResponse(Buffer.concat([later, message]))).toEqual(readResponse(message));
  expect(() => readResponse(Buffer.from([0x7b]))).toThrow('unknown wire type 3');
});

test('a response that is cut is an error', () => {
  const message = encoded(eventMessage(true, eventOf({})));
  for (let length = 1; length < message.length; length++)
    expect(() => readResponse(message.subarray(0, length)), `${length} bytes`).toThrow(
      'ends after its message',
    );
});

test('a number without an end is an error', () => {
  expect(() => readResponse(Buffer.alloc(200, 0x80))).toThrow('a number has more than ten bytes');
});
