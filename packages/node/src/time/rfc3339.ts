import Format from 'typebox/format';

/** The form of Date.prototype.toISOString, limited to days that every month has. */
const COMMON_TIME = /^\d{4}-(0[1-9]|1[0-2])-(0[1-9]|1\d|2[0-8])T([01]\d|2[0-3]):[0-5]\d:[0-5]\d\.\d{3}Z$/;

/** A date-time without its fraction, the digits of the fraction, and the offset. */
const PARTS = /^([^.Z+]+:\d\d)(?:\.(\d+))?(Z|[+-]\d\d:\d\d)$/i;

/** Whether a value is an RFC 3339 date-time; the common form is not parsed. */
export function isRfc3339(text: unknown): text is string {
  return typeof text === 'string' && (COMMON_TIME.test(text) || parseRfc3339(text) !== undefined);
}

/** Parses an RFC 3339 time to milliseconds since 1970, rounded down; a leap second counts as the second before. */
export function parseRfc3339(text: unknown): number | undefined {
  if (typeof text !== 'string') return undefined;
  if (COMMON_TIME.test(text)) return Date.parse(text);
  if (!Format.IsDateTime(text)) return undefined;
  // Date.parse misreads some fractions of more than nine digits.
  const [, seconds, digits = '', offset] = PARTS.exec(text) ?? [];
  const time = Date.parse(`${seconds?.replace(/60$/, '59')}${offset}`) + Number(`${digits}000`.slice(0, 3));
  return Number.isNaN(time) ? undefined : time;
}

/** The same, but rounds up to the first millisecond that is not earlier. */
export function parseRfc3339RoundedUp(text: unknown): number | undefined {
  const time = parseRfc3339(text);
  return time !== undefined && /\.\d{3}\d*[1-9]/.test(String(text)) ? time + 1 : time;
}
