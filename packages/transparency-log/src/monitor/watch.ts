import { eventOfEntry } from '../entries/entry.ts';

/** A member of the data of events, and the text that it must have. */
export type Watched = { member: string; value: string };

/** Parses MEMBER=VALUE. @throws Error */
export function parseWatched(text: string): Watched {
  const [, member, value] = /^([^=]+)=(.*)$/s.exec(text) ?? [];
  if (member === undefined || value === undefined) throw new Error('--watch must be MEMBER=VALUE.');
  return { member, value };
}

/** The event of an entry as a line of JSON, if it is watched. Characters that a terminal may interpret are escaped. */
export function watchedLine(entry: Buffer, { member, value }: Watched): string | undefined {
  const data = Object(eventOfEntry(entry)?.data);
  if (!Object.hasOwn(data, member) || data[member] !== value) return undefined;
  return `${entry.toString().replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, escaped)}\n`;
}

const escaped = (char: string): string =>
  Array.from(
    { length: char.length },
    (_, i) => `\\u${char.charCodeAt(i).toString(16).padStart(4, '0')}`,
  ).join('');
