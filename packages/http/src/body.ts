import { IncomingMessage } from 'node:http';
import type { FastifyRequest } from 'fastify';
import { HTTP_ERRORS, HttpError } from './errors.ts';
import { parseExactJson } from './exactJson.ts';
import { fieldCount } from './fieldCount.ts';

/** Less than an entry of a tiled log may have (tlog-tiles), whatever the event adds to the body. */
export const MAX_BODY_BYTES = 60 * 1024;

export function hasBody({ headers }: IncomingMessage): boolean {
  return headers['content-length'] !== undefined || headers['transfer-encoding'] !== undefined;
}

/** A request whose body can be gathered before it is read. */
export class RequestWithBody extends IncomingMessage {
  #body: Promise<Buffer> | undefined;
  /** Bytes that have arrived of a body that is gathered. */
  gathered = 0;

  /** The body, from now on in one buffer: Node would keep it in pieces, of which one of a byte takes hundreds. */
  gather(): Promise<Buffer> {
    this.#body ??= gather(this, (bytes) => {
      this.gathered = bytes;
    });
    return this.#body;
  }
}

/** @throws HttpError */
function gather(request: IncomingMessage, onLength = (_bytes: number): void => {}): Promise<Buffer> {
  const { promise, resolve, reject } = Promise.withResolvers<Buffer>();
  promise.catch(() => {}); // it may be refused before its body is read
  let body: Buffer = Buffer.alloc(0);
  let length = 0;
  if (Number(request.headers['content-length']) > MAX_BODY_BYTES)
    reject(new HttpError(HTTP_ERRORS.bodyTooLarge));
  request.on('data', (piece: Buffer) => {
    const start = length;
    length += piece.length;
    onLength(length);
    if (length > MAX_BODY_BYTES) return reject(new HttpError(HTTP_ERRORS.bodyTooLarge));
    if (start === 0) {
      body = piece; // most bodies are one piece
      return;
    }
    if (length > body.length) {
      const larger = Buffer.allocUnsafe(Math.min(2 * length, MAX_BODY_BYTES));
      body.copy(larger, 0, 0, start);
      body = larger;
    }
    piece.copy(body, start);
  });
  request.once('end', () => resolve(body.subarray(0, length)));
  request.once('error', () => reject(new HttpError(HTTP_ERRORS.malformedHttp, 'The body is incomplete.')));
  return promise;
}

export async function parseJsonBody(request: FastifyRequest, payload: IncomingMessage): Promise<unknown> {
  const bytes = await (payload instanceof RequestWithBody ? payload.gather() : gather(payload));
  assertUtf8(request);
  return parseExactJson(bytes);
}

/** @throws HttpError */
function assertUtf8({ headers, raw }: FastifyRequest): void {
  const { 'content-type': type = '', 'content-encoding': encoding = 'identity' } = headers;
  if (
    fieldCount(raw, 'content-type') > 1 ||
    !isUtf8Label(charsetOf(type)) ||
    encoding.toLowerCase() !== 'identity'
  )
    throw new HttpError(
      HTTP_ERRORS.unsupportedMediaType,
      'The body must be in UTF-8, without a content encoding.',
    );
}

/** A parameter, or none, behind its semicolon (RFC 9110 section 5.6.6). */
const PARAMETER = /;[ \t]*(?:([\w!#$%&'*+.^`|~-]+)=(?:([\w!#$%&'*+.^`|~-]+)|"((?:[^"\\]|\\.)*)"))?[ \t]*/gy;

/** The charset of a media type, by default UTF-8; undefined if it has several, or malformed parameters. */
function charsetOf(type: string): string | undefined {
  const parameters = type.slice(`${type};`.indexOf(';'));
  const found = [...parameters.matchAll(PARAMETER)];
  const charsets = found.filter(([, name]) => name?.toLowerCase() === 'charset');
  if (charsets.length > 1 || found.map(([text]) => text).join('') !== parameters) return undefined;
  const [, , token, quoted = 'utf-8'] = charsets[0] ?? [];
  return token ?? quoted.replaceAll(/\\(.)/g, '$1');
}

/** Whether a label is one of UTF-8 (https://encoding.spec.whatwg.org/#names-and-labels). */
function isUtf8Label(label: string | undefined): boolean {
  try {
    return label !== undefined && new TextDecoder(label).encoding === 'utf-8';
  } catch {
    return false;
  }
}
