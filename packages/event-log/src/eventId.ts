import { randomUUID } from 'node:crypto';

/** A UUID in the form that every store returns. */
export const UUID = /^[\da-f]{8}(-[\da-f]{4}){3}-[\da-f]{12}$/;

/** Creates a UUID version 7 (RFC 9562 section 5.7). It starts with the time, so an index of IDs grows at its end. */
export function newEventId(now = new Date()): string {
  const time = now.getTime().toString(16).padStart(12, '0');
  return `${time.slice(0, 8)}-${time.slice(8)}-7${randomUUID().slice(15)}`;
}
