// What the modules of the server use of Node's Buffer, for browsers.

type Encoding = 'utf8' | 'hex' | 'base64';

/** A `Buffer` whose methods do what Node's do, as far as they are here. */
export class BrowserBuffer extends Uint8Array {
  static override from(source: unknown, encoding?: unknown): BrowserBuffer {
    if (typeof source !== 'string') return BrowserBuffer.#of(new Uint8Array(source as ArrayLike<number>));
    return BrowserBuffer.#of(decode(source, (encoding ?? 'utf8') as Encoding));
  }

  static #of(bytes: Uint8Array): BrowserBuffer {
    return new BrowserBuffer(bytes.buffer as ArrayBuffer, bytes.byteOffset, bytes.length);
  }

  static alloc(length: number, fill = 0): BrowserBuffer {
    return new BrowserBuffer(length).fill(fill);
  }

  static byteLength(text: string): number {
    return new TextEncoder().encode(text).length;
  }

  static concat(parts: readonly Uint8Array[]): BrowserBuffer {
    const whole = new BrowserBuffer(parts.reduce((length, part) => length + part.length, 0));
    let at = 0;
    for (const part of parts) {
      whole.set(part, at);
      at += part.length;
    }
    return whole;
  }

  override toString(encoding: Encoding = 'utf8', start = 0, end = this.length): string {
    const bytes = this.subarray(start, end);
    if (encoding === 'hex') return bytes.toHex();
    return encoding === 'base64'
      ? bytes.toBase64()
      : new TextDecoder('utf-8', { ignoreBOM: true }).decode(bytes);
  }

  write(text: string, offset: number, encoding: Encoding): number {
    const bytes = decode(text, encoding);
    this.set(bytes, offset);
    return bytes.length;
  }

  readUInt16BE(offset: number): number {
    return new DataView(this.buffer, this.byteOffset).getUint16(offset);
  }

  writeUInt16BE(value: number, offset = 0): number {
    new DataView(this.buffer, this.byteOffset).setUint16(offset, value);
    return offset + 2;
  }
}

function decode(text: string, encoding: Encoding): Uint8Array {
  if (encoding === 'hex') return Uint8Array.fromHex(text);
  return encoding === 'base64' ? fromBase64(text) : new TextEncoder().encode(text);
}

/** Like Node, no bytes for what is not Base64: the modules of the server encode them again, and compare. */
function fromBase64(text: string): Uint8Array {
  try {
    return Uint8Array.fromBase64(text);
  } catch {
    return new Uint8Array();
  }
}
