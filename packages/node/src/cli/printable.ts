/** Text that is safe to print on a terminal: control, formatting and separator characters are escaped. */
export function printable(text: string): string {
  return text.replace(
    /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/gu,
    (char) => `\\u{${char.codePointAt(0)?.toString(16)}}`,
  );
}

const IN_JSON = /[\x7f-\x9f\p{Cf}\p{Zl}\p{Zp}]/gu;

/**
 * The same JSON in one line for every reader, safe to print on a terminal. `JSON.stringify` leaves characters that some
 * readers take for a line end (U+0085, U+2028, U+2029), and others that move what a terminal shows.
 */
export function printableJson(json: string): string {
  return json.replace(IN_JSON, (char) =>
    Array.from(char.split(''), (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`).join(''),
  );
}
