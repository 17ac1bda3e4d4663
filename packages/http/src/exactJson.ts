import { isUtf8 } from 'node:buffer';
import { parse } from 'secure-json-parse';
import { HTTP_ERRORS, HttpError } from './errors.ts';

const MAX_NESTING = 64;

/**
 * Parses JSON (RFC 8259) without rounding a number. 64-bit integers keep every digit: one that `number` cannot hold is
 * a `bigint`. All other numbers, such as 1.5, become NaN, which no schema of a number accepts. Strings must be
 * well-formed Unicode (I-JSON, RFC 7493 section 2.1). Of duplicate names the last one counts. @throws HttpError
 */
export function parseExactJson(bytes: Buffer): unknown {
  if (!isUtf8(bytes)) throw notJson('The body is not UTF-8.');
  const text = bytes.toString();
  if (nestingDepth(text) > MAX_NESTING)
    throw notJson(`The body is nested more than ${MAX_NESTING} levels deep.`);
  const value = parseText(text, mayLoseDigits(text) ? reviveNumber : undefined);
  // Valid UTF-8 has no surrogates, so only an escape sequence can have one.
  if (/\\u[dD]/.test(text) && !isWellFormed(value)) throw notJson('The body has an unpaired surrogate.');
  return value;
}

const notJson = (message: string): HttpError => new HttpError(HTTP_ERRORS.notJson, message);

type Reviver = (key: string, value: unknown, context: { source: string }) => unknown;

function parseText(text: string, reviver: Reviver | undefined): unknown {
  try {
    return parse(text, reviver as Parameters<typeof parse>[1], {
      protoAction: 'error',
      constructorAction: 'ignore',
    });
  } catch (error) {
    const { message } = error as Error;
    if (message.includes('forbidden prototype')) throw notJson('The body has the key __proto__.');
    throw notJson(`The body is not JSON: ${message.toWellFormed()}.`);
  }
}

/** Whether a number in the text may not be exact as `number`. Digits in strings give false positives. */
function mayLoseDigits(text: string): boolean {
  return /\d[.eE]|\d{16}/.test(text);
}

/** Revives a number from its source text (https://tc39.es/proposal-json-parse-with-source). */
const reviveNumber: Reviver = (_key, value, { source }) => {
  if (typeof value !== 'number') return value;
  const integer = parseInt64(source) ?? Number.NaN;
  return Number.isSafeInteger(Number(integer)) ? Number(integer) : integer;
};

/** The value of a JSON number that is a 64-bit integer, such as `1.0`, `1e3` or `1200e-2`. */
function parseInt64(source: string): bigint | undefined {
  const [, sign, whole = '', fraction = '', exponent = '0'] =
    /^(-?)(\d+)(?:\.(\d+))?(?:[eE]([+-]?\d+))?$/.exec(source) ?? [];
  const digits = (whole + fraction).replace(/^0+/, '');
  let end = digits.length;
  while (digits[end - 1] === '0') end--; // /0+$/ takes quadratic time for zeros in the middle
  const significant = digits.slice(0, end);
  if (significant === '') return 0n;
  // The value is significant × 10^scale, and no 64-bit integer has more than 19 digits.
  const scale = Number(exponent) - fraction.length + (digits.length - significant.length);
  if (scale < 0 || significant.length + scale > 19) return undefined;
  const value = BigInt(`${sign}${significant}${'0'.repeat(scale)}`);
  return BigInt.asIntN(64, value) === value ? value : undefined;
}

/** The nesting depth of arrays and objects, read from the text, since the parser is recursive. */
function nestingDepth(text: string): number {
  let depth = 0;
  let deepest = 0;
  let inString = false;
  for (let i = 0; i < text.length; i++) {
    const char = text[i];
    if (inString) {
      if (char === '\\') i++;
      else if (char === '"') inString = false;
    } else if (char === '"') inString = true;
    else if (char === '[' || char === '{') deepest = Math.max(deepest, ++depth);
    else if (char === ']' || char === '}') depth--;
  }
  return deepest;
}

function isWellFormed(value: unknown): boolean {
  if (typeof value === 'string') return value.isWellFormed();
  if (value === null || typeof value !== 'object') return true;
  return Object.entries(value).every(([key, part]) => key.isWellFormed() && isWellFormed(part));
}
