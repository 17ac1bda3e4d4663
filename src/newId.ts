import { randomUUID } from 'node:crypto';

/**
 * A UUID of version 7 (RFC 9562 section 5.7): it begins with the time, so an index of ids grows at its end instead of
 * everywhere. Random bits come from Node's pool of them.
 */
export function newId(now: Date): string {
  const time = now.getTime().toString(16).padStart(12, '0');
  return `${time.slice(0, 8)}-${time.slice(8)}-7${randomUUID().slice(15)}`;
}
