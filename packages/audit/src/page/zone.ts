import { utc } from './text.ts';

const MINUTE_MS = 60_000;
const TIME = /^(\d{4}-\d\d-\d\d)(?:[ T](\d\d:\d\d(?::\d\d(?:\.\d+)?)?))?(Z|[+-]\d\d:\d\d)?$/;
const TO_THE_MINUTE = '2026-03-01 12:00'.length;
const TO_THE_SECOND = '2026-03-01 12:00:00'.length;

/** The time zone in which times are shown and typed: UTC, or that of the browser. */
export class Zone {
  isLocal = false;

  get name(): string {
    return this.isLocal ? 'local time' : 'UTC';
  }

  /** A time such as 2026-03-01 12:00:00.000; empty if there is none. */
  format(time: number): string {
    return utc(this.isLocal ? time - new Date(time).getTimezoneOffset() * MINUTE_MS : time);
  }

  /** Both ends of a range, as short as they differ. */
  formatEnds(...ends: [from: number, to: number]): string[] {
    const [from = '', to = ''] = ends.map((time) => this.format(time));
    const length = [TO_THE_MINUTE, TO_THE_SECOND].find((one) => from.slice(0, one) !== to.slice(0, one));
    return [from.slice(0, length), to.slice(0, length)];
  }

  /** A date, with a time or else this one, in this zone or else with an offset, as RFC 3339; undefined if it is none. */
  parse(text: string, timeOfDay: string): string | undefined {
    const [, date = '', time = timeOfDay, offset = this.isLocal ? '' : 'Z'] = TIME.exec(text) ?? [];
    const at = new Date(`${date}T${time}${offset}`);
    const isDate = date !== '' && utc(Date.parse(date)).startsWith(date); // 30 February would be 2 March
    return isDate && utc(at.getTime()) !== '' ? at.toISOString() : undefined;
  }

  /** A text of the URL, as it is shown in a field. */
  show(text: string): string {
    return text.endsWith('Z') ? this.format(Date.parse(text)) || text : text;
  }
}
