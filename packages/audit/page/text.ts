// Texts of events are shown exactly, with invisible characters made visible.

/** Invisible characters, and characters that change the direction of text: controls, formats, separators. */
const INVISIBLE = /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/gu;

/** Replaces invisible characters in a text by their code points, such as [U+202E]. */
export function visible(text: string): string {
  return text.replace(
    INVISIBLE,
    (character) => `[U+${hex(character.codePointAt(0) as number).toUpperCase()}]`,
  );
}

/**
 * The indented JSON of an event, with exact numbers, and escape sequences for invisible characters. The attribute metadata
 * of a CloudEvent, which is JSON as text, is shown as JSON, too.
 */
export function indentedJson(json: string): string {
  const value = parseExactly(json);
  if (typeof value?.specversion === 'string' && value.metadata) value.metadata = parseExactly(value.metadata);
  const escaped = (codeUnit: string): string => `\\u${hex(codeUnit.charCodeAt(0))}`;
  return JSON.stringify(value, null, 2).replace(INVISIBLE, (character) =>
    character === '\n' ? character : character.split('').map(escaped).join(''),
  );
}

const hex = (code: number): string => code.toString(16).padStart(4, '0');

// biome-ignore lint/suspicious/noExplicitAny: as JSON.parse
const parseExactly = (json: string): any =>
  JSON.parse(json, exact as (key: string, value: unknown) => unknown);

/** A reviver that keeps all digits: https://tc39.es/proposal-json-parse-with-source */
function exact(_key: string, value: unknown, { source }: { source: string }): unknown {
  return typeof value === 'number' ? rawJSON(source) : value;
}
const { rawJSON } = JSON as unknown as { rawJSON(text: string): unknown };

export const capital = (word: string): string => word.replace(/^./, (letter) => letter.toUpperCase());

/** The first characters of a text, without splitting a surrogate pair. */
export function beginning(text: string, length: number): string {
  const cut = text.slice(0, length);
  return text.length > length && !cut.isWellFormed() ? cut.slice(0, -1) : cut;
}

/**
 * Parses an RFC 3339 time to milliseconds since 1970; NaN for other values. Like on the server, it is rounded down, and a
 * leap second counts as the second before.
 */
export const parseTime = (text: unknown): number =>
  typeof text === 'string'
    ? Date.parse(text.replace(':60', ':59').replace(/(\.\d{3})\d+/, '$1'))
    : Number.NaN;

/** A time in UTC, such as 2026-03-01 12:00:00.000; empty if there is none. */
export function utc(time: number): string {
  const date = new Date(time);
  return Number.isNaN(date.getTime()) ? '' : date.toISOString().replace('T', ' ').slice(0, -1);
}

export const count = (number: number): string => number.toLocaleString('en');

export const counted = (number: number, thing: string): string =>
  `${count(number)} ${thing}${number === 1 ? '' : 's'}`;

/** The number with its noun and verb, such as 1 event is, or 2 events are. */
export const are = (number: number, thing: string): string =>
  `${counted(number, thing)} ${number === 1 ? 'is' : 'are'}`;

/** Characters that are written from right to left: https://www.unicode.org/reports/tr44/#Bidi_Class_Values */
const RTL = '[\\u0590-\\u08ff\\ufb1d-\\ufdff\\ufe70-\\ufeff\\u{10800}-\\u{10fff}\\u{1e800}-\\u{1efff}]';
const RTL_WORDS = new RegExp(`(${RTL}+(?: ${RTL}+)*)`, 'u');

/**
 * A text in parts, of which every second is to be isolated: words that are written from right to left, which must not
 * change the order of the text around them.
 */
export const isolated = (text: string): string[] => text.split(RTL_WORDS);

/** The strings of JSON, with the colon after a key; and numbers and words. */
const TOKEN = /("(?:[^"\\]|\\.)*"(?:: )?|(?<=[ [])[-\w.+]+)/g;

/** JSON in parts, with the name of their colour. */
export const coloured = (json: string): [name: string, part: string][] =>
  json.split(TOKEN).map((part, i) => {
    const name = part.endsWith(': ') ? 'key' : part.startsWith('"') ? 'string' : 'number';
    return [i % 2 === 0 ? '' : name, part];
  });
