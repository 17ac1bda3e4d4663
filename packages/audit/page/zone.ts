import { parseTime, utc } from './text.ts';

const MINUTE_MS = 60_000;
const DAY_MS = 24 * 60 * MINUTE_MS;
const TIME = /^(\d{4}-\d\d-\d\d)(?:[ T](\d\d:\d\d(?::\d\d(?:\.\d{1,3})?)?))?(Z|[+-]\d\d:\d\d)?$/;
export const FULL = '2026-03-01 12:00:00.000'.length;
export const DATE = '2026-03-01'.length;
export const TO_THE_MINUTE = '2026-03-01 12:00'.length;
const TO_THE_SECOND = '2026-03-01 12:00:00'.length;

/** The time zone of shown and typed times: UTC, or the browser's time zone. */
export class Zone {
  readonly isLocal: boolean;
  /** Such as UTC, or Asia/Kolkata. */
  readonly name: string;

  constructor(isLocal = false) {
    this.isLocal = isLocal;
    this.name = isLocal ? Intl.DateTimeFormat().resolvedOptions().timeZone : 'UTC';
  }

  /** A whole time with its zone, such as 2026-03-01 12:00:00.000 UTC, or … Asia/Kolkata (UTC+05:30); empty for NaN. */
  formatNamed(time: number): string {
    const text = this.format(time).slice(0, FULL);
    return text && `${text} ${this.name}${this.isLocal ? ` (UTC${offsetText(time)})` : ''}`;
  }

  /** Formats a time, such as 2026-03-01 12:00:00.000, with its offset if clocks show it twice; empty for NaN. */
  format(time: number, length?: number): string {
    if (!this.isLocal) return utc(time).slice(0, length);
    const offset = offsetAt(time);
    const isRepeated = toInstants(time - offset).length > 1;
    return utc(time - offset).slice(0, length) + (isRepeated ? offsetText(time) : '');
  }

  /** Formats both ends of a range, as short as possible so that they differ, with the date once if it is the same. */
  formatEnds(from: number, to: number): string[] {
    const lengths = [TO_THE_MINUTE, TO_THE_SECOND];
    const length = lengths.find((shown) => this.format(from, shown) !== this.format(to, shown));
    const [start, end] = [this.format(from, length), this.format(to, length)];
    return [start, end.startsWith(start.slice(0, DATE)) ? end.slice(DATE + 1) : end];
  }

  /** Parses a date, by default with `timeOfDay` and in this zone, to RFC 3339; undefined if it is malformed. */
  parse(text: string, timeOfDay: string): string | undefined {
    const [, date = '', time = timeOfDay, offset = this.isLocal ? '' : 'Z'] = TIME.exec(text) ?? [];
    const isDate = date !== '' && utc(Date.parse(date)).startsWith(date); // 30 February would be 2 March
    let at = Date.parse(`${date}T${time}${offset || 'Z'}`);
    // Of a time that clocks show twice, take the first instant; for the end of a day, the last one. A skipped time
    // counts as one hour later.
    if (offset === '') {
      const isEnd = time === timeOfDay && time > '00:00';
      at = toInstants(at).at(isEnd ? -1 : 0) ?? at + offsetAt(at - DAY_MS);
    }
    return isDate && utc(at) !== '' ? new Date(at).toISOString() : undefined;
  }

  /** Formats a text of the URL for a field with a default time of day: as short as it is parsed to the same time. */
  show(text: string, timeOfDay = ''): string {
    const time = text.endsWith('Z') ? parseTime(text) : Number.NaN;
    const full = this.format(time);
    const lengths = [DATE, TO_THE_MINUTE, TO_THE_SECOND];
    const isSame = (short: string): boolean => parseTime(this.parse(short, timeOfDay)) === time;
    const hasOffset = full.length > FULL;
    const short = hasOffset ? undefined : lengths.map((length) => full.slice(0, length)).find(isSame);
    return short ?? (full || text);
  }
}

/** The difference of UTC and local time at an instant, in milliseconds. */
function offsetAt(time: number): number {
  return new Date(time).getTimezoneOffset() * MINUTE_MS;
}

/** The offset of local time, such as +05:30. */
function offsetText(time: number): string {
  const offset = offsetAt(time);
  return `${offset > 0 ? '-' : '+'}${utc(Math.abs(offset)).slice(11, TO_THE_MINUTE)}`;
}

/** The instants at which local clocks show this time: two in a repeated hour, none in a skipped hour. */
function toInstants(shown: number): number[] {
  const found = [-DAY_MS, DAY_MS].map((distance) => shown + offsetAt(shown + distance));
  return [...new Set(found)].filter((time) => time - offsetAt(time) === shown);
}
