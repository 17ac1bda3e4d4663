import { randomUUID } from 'node:crypto';

/** The text of a UUID, as stores give it back however it was written. */
export const UUID = /^[\da-f]{8}(-[\da-f]{4}){3}-[\da-f]{12}$/;

/**
 * A UUID of version 7 (RFC 9562 section 5.7): it begins with the time, so an index of ids grows at its end instead of
 * everywhere. Random bits come from Node's pool of them.
 */
export function newId(now: Date): string {
  const time = now.getTime().toString(16).padStart(12, '0');
  return `${time.slice(0, 8)}-${time.slice(8)}-7${randomUUID().slice(15)}`;
}
