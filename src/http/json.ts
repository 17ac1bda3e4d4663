import { isUtf8 } from 'node:buffer';
import { parse } from 'secure-json-parse';

const DEEPEST = 64;

/** The bytes are no JSON text that can be taken exactly. The message says why, in words for a client. */
export class NotJson extends Error {
  override readonly name = 'NotJson';
}

/**
 * JSON (RFC 8259) without loss: text is well-formed Unicode or refused (I-JSON, RFC 7493 section 2.1), and a number
 * that is an integer of 64 bits keeps every digit, as a `number` or, on the slow way, a `bigint`.
 * On the slow way every other number is NaN, since nobody here asks for one.
 * @throws NotJson
 */
export function parseJson(bytes: Buffer): unknown {
  if (!isUtf8(bytes)) throw new NotJson('The body is not UTF-8.');
  const text = bytes.toString();
  if (nesting(text) > DEEPEST) throw new NotJson(`The body is nested more than ${DEEPEST} levels deep.`);
  const value = parsed(text, isExactAsNumbers(text) ? undefined : exactNumber);
  // Valid UTF-8 holds no surrogates: only an escape can bring one in.
  if (/\\u[dD]/.test(text) && !isWellFormed(value))
    throw new NotJson('The body holds half of a surrogate pair.');
  return value;
}

type Reviver = (key: string, value: unknown, context: { source: string }) => unknown;

function parsed(text: string, reviver: Reviver | undefined): unknown {
  try {
    return parse(text, reviver as Parameters<typeof parse>[1], {
      protoAction: 'error',
      constructorAction: 'ignore',
    });
  } catch (error) {
    const { message } = error as Error;
    if (message.includes('forbidden prototype')) throw new NotJson('The body holds the key __proto__.');
    throw new NotJson(`The body is not JSON: ${message.toWellFormed()}.`);
  }
}

/** Whether JSON.parse alone gives every integer exactly. Looks at digits in strings too: those only cost time. */
function isExactAsNumbers(text: string): boolean {
  return !/\d[.eE]|\d{16}/.test(text);
}

/** A reviver that reads a number from its source text (https://tc39.es/proposal-json-parse-with-source). */
const exactNumber: Reviver = (_key, value, { source }) => {
  return typeof value === 'number' ? (toInt64(source) ?? Number.NaN) : value;
};

/** The value of a JSON number, if it is an integer of 64 bits: also `1.0`, `1e3`, `1200e-2`. */
function toInt64(source: string): bigint | undefined {
  const [, sign, whole = '', fraction = '', exponent = '0'] =
    /^(-?)(\d+)(?:\.(\d+))?(?:[eE]([+-]?\d+))?$/.exec(source) ?? [];
  const digits = (whole + fraction).replace(/^0+/, '');
  let end = digits.length;
  while (digits[end - 1] === '0') end--; // not /0+$/, which is quadratic on zeros in the middle
  const significant = digits.slice(0, end);
  if (significant === '') return 0n;
  // digits × 10^scale, where no int64 has more than 19 digits
  const scale = Number(exponent) - fraction.length + (digits.length - significant.length);
  if (scale < 0 || significant.length + scale > 19) return undefined;
  const value = BigInt(`${sign}${significant}${'0'.repeat(scale)}`);
  return BigInt.asIntN(64, value) === value ? value : undefined;
}

/** How deep arrays and objects are nested in a JSON text; read from the text, since the parser is recursive. */
function nesting(text: string): number {
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
