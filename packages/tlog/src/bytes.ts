// Bytes as text. Node 24 has no `Uint8Array.fromHex`.

const encoder = new TextEncoder();
const decoder = new TextDecoder();
const DIGITS = encoder.encode('0123456789abcdef');
/** The values of hexadecimal digits, by their characters. */
const VALUES = Uint8Array.from({ length: 128 }, (_, code) => Number.parseInt(String.fromCharCode(code), 16));
/** Functions take fewer arguments than a proof has bytes. */
const CHUNK_BYTES = 8_192;

export function toHex(bytes: Uint8Array): string {
  const text = new Uint8Array(2 * bytes.length);
  for (let i = 0; i < bytes.length; i++) {
    const byte = bytes[i] as number;
    text[2 * i] = DIGITS[byte >> 4] as number;
    text[2 * i + 1] = DIGITS[byte & 15] as number;
  }
  return decoder.decode(text);
}

export function fromHex(text: string): Uint8Array {
  const bytes = new Uint8Array(text.length / 2);
  writeHex(bytes, text, 0);
  return bytes;
}

/** Writes what `text` encodes at an offset. */
export function writeHex(bytes: Uint8Array, text: string, offset: number): void {
  for (let i = 0; i < text.length; i += 2)
    bytes[offset + i / 2] = (valueAt(text, i) << 4) | valueAt(text, i + 1);
}

const valueAt = (text: string, at: number): number => VALUES[text.charCodeAt(at)] as number;

export function toBase64(bytes: Uint8Array): string {
  let binary = '';
  for (let at = 0; at < bytes.length; at += CHUNK_BYTES)
    binary += String.fromCharCode(...bytes.subarray(at, at + CHUNK_BYTES));
  return btoa(binary);
}

/** @throws DOMException if the text is not Base64; accepts white space, and missing padding */
export function fromBase64(text: string): Uint8Array {
  const binary = atob(text);
  return Uint8Array.from({ length: binary.length }, (_, i) => binary.charCodeAt(i));
}

/** The bytes of a text in UTF-8. */
export const toUtf8 = (text: string): Uint8Array<ArrayBuffer> => encoder.encode(text);

export function concat(parts: readonly Uint8Array[]): Uint8Array {
  const whole = new Uint8Array(parts.reduce((length, part) => length + part.length, 0));
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}
