import type { RecordedEvent } from '../eventStore.ts';

// An erased event leaves a stub in its place, and a later record names it. Browsers import this module, too.

/** The type of a stub. */
export const EVENT_ERASED = 'EventErased';
/** The type of a record. */
export const EVENTS_ERASED = 'EventsErased';
/** The maximum number of events that a record names. */
export const MAX_NAMED_EVENTS = 10_000;

/** What a stub keeps of the event: the SHA-256 of its text in hexadecimal, and its type. */
export type EventDigest = { sha256: string; type: string };

type Stored = Pick<RecordedEvent, 'stream' | 'revision' | 'id' | 'type' | 'data' | 'metadata'>;

/** The stream of a stub with this ID, in a log whose streams have this prefix, without a slash. */
export const stubStream = (prefix: string, id: string): string => `${prefix}erased-${id}`;

/**
 * What an event has of the event that it replaces, if it has the form of a stub; undefined for any other event. Whether the
 * ID follows from it is for a verifier to check.
 */
export function digestInStub(event: Stored): EventDigest | undefined {
  if (event.type !== EVENT_ERASED) return undefined;
  const { stream, revision, id, data, metadata } = event;
  const { sha256, type, ...others } = Object(data) as { sha256?: unknown; type?: unknown };
  const isStub =
    typeof sha256 === 'string' &&
    /^[\da-f]{64}$/.test(sha256) &&
    typeof type === 'string' &&
    stream.endsWith(stubStream('', id)) &&
    !stream.includes('/') && // it is in no stream of an entity
    revision === 0n &&
    [others, metadata].every((value) => JSON.stringify(value) === '{}');
  return isStub ? { sha256, type } : undefined;
}

export const isStub = (event: Stored): boolean => digestInStub(event) !== undefined;

/** The prefix of the streams in which the service writes records, in a log whose streams have this prefix. */
export const recordStreams = (prefix: string): string => `${prefix}erasure-`;

/**
 * The indices of the events that a record names, from 0: the same in every copy of the log. Undefined for data that no
 * record has. The record must be at a higher index.
 */
export function parseRecord(data: unknown): readonly number[] | undefined {
  const { erased, ...others } = Object(data) as { erased?: unknown };
  if (!Array.isArray(erased) || Object.keys(others).length > 0) return undefined;
  const isRecord =
    erased.length > 0 &&
    erased.length <= MAX_NAMED_EVENTS &&
    erased.every((index, i) => Number.isSafeInteger(index) && index > (i === 0 ? -1 : erased[i - 1]));
  return isRecord ? erased : undefined;
}
