// The part of Node's Buffer that the modules of the server use, for browsers.

type Encoding = 'utf8' | 'hex' | 'base64';

/** A subset of `Buffer` with the behaviour of Node. */
export class BrowserBuffer extends Uint8Array {
  static override from(source: unknown, encoding: unknown = 'utf8'): BrowserBuffer {
    const bytes = typeof source === 'string' ? decode(source, encoding as Encoding) : source;
    return new BrowserBuffer(bytes as ArrayLike<number>);
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
    if (encoding === 'base64') return bytes.toBase64();
    return new TextDecoder('utf-8', { ignoreBOM: true }).decode(bytes);
  }

  write(text: string, offset: number, encoding: Encoding): void {
    this.set(decode(text, encoding), offset);
  }

  readUInt16BE(offset: number): number {
    return new DataView(this.buffer, this.byteOffset).getUint16(offset);
  }
}

function decode(text: string, encoding: Encoding): Uint8Array {
  if (encoding === 'utf8') return new TextEncoder().encode(text);
  if (encoding === 'hex') return Uint8Array.fromHex(text);
  try {
    return Uint8Array.fromBase64(text);
  } catch {
    return new Uint8Array(); // Node decodes a part; in both cases, encoding the bytes again gives a different text
  }
}
