import { parseTime, utc } from './text.ts';

const MINUTE_MS = 60_000;
const DAY_MS = 24 * 60 * MINUTE_MS;
const TIME = /^(\d{4}-\d\d-\d\d)(?:[ T](\d\d:\d\d(?::\d\d(?:\.\d{1,3})?)?))?(Z|[+-]\d\d:\d\d)?$/;
const TO_THE_MINUTE = '2026-03-01 12:00'.length;
const TO_THE_SECOND = '2026-03-01 12:00:00'.length;

/** The time zone in which times are shown and typed: UTC, or that of the browser. */
export class Zone {
  isLocal = false;

  get name(): string {
    return this.isLocal ? 'local time' : 'UTC';
  }

  /** A time such as 2026-03-01 12:00:00.000, with its offset if clocks show it twice; empty if there is none. */
  format(time: number, length?: number): string {
    if (!this.isLocal) return utc(time).slice(0, length);
    const offset = offsetAt(time);
    const isRepeated = instantsOf(time - offset).length > 1;
    const suffix = `${offset > 0 ? '-' : '+'}${utc(Math.abs(offset)).slice(11, TO_THE_MINUTE)}`;
    return utc(time - offset).slice(0, length) + (isRepeated ? suffix : '');
  }

  /** Both ends of a range, as short as they differ. */
  formatEnds(from: number, to: number): string[] {
    const lengths = [TO_THE_MINUTE, TO_THE_SECOND];
    const length = lengths.find((one) => this.format(from, one) !== this.format(to, one));
    return [this.format(from, length), this.format(to, length)];
  }

  /** A date, with a time or else this one, in this zone or else with an offset, as RFC 3339; undefined if it is none. */
  parse(text: string, timeOfDay: string): string | undefined {
    const [, date = '', time = timeOfDay, offset = this.isLocal ? '' : 'Z'] = TIME.exec(text) ?? [];
    const isDate = date !== '' && utc(Date.parse(date)).startsWith(date); // 30 February would be 2 March
    let at = Date.parse(`${date}T${time}${offset || 'Z'}`);
    // A time that clocks show twice is the first one, but the end of a day is the last one. An hour that is skipped is
    // the next one.
    if (offset === '') {
      const isEnd = time === timeOfDay && time > '00:00';
      at = instantsOf(at).at(isEnd ? -1 : 0) ?? at + offsetAt(at - DAY_MS);
    }
    return isDate && utc(at) !== '' ? new Date(at).toISOString() : undefined;
  }

  /** A text of the URL, as it is shown in a field. */
  show(text: string): string {
    return text.endsWith('Z') ? this.format(parseTime(text)) || text : text;
  }
}

/** What to add to the local time at an instant to get UTC, in milliseconds. */
function offsetAt(time: number): number {
  return new Date(time).getTimezoneOffset() * MINUTE_MS;
}

/** The instants at which local clocks show this time: two in an hour that is repeated, none in one that is skipped. */
function instantsOf(shown: number): number[] {
  const found = [-DAY_MS, DAY_MS].map((distance) => shown + offsetAt(shown + distance));
  return [...new Set(found)].filter((time) => time - offsetAt(time) === shown);
}
