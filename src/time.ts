import Format from 'typebox/format';

/**
 * A point in time as RFC 3339 writes it, in milliseconds since 1970; undefined where the text is none. Further digits
 * are cut off, and a leap second counts as the second before it.
 */
export function timeOf(text: unknown): number | undefined {
  if (typeof text !== 'string' || !Format.IsDateTime(text)) return undefined;
  const time = Date.parse(text.replace(':60', ':59'));
  return Number.isNaN(time) ? undefined : time;
}
