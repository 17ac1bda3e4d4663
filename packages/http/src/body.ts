import { IncomingMessage } from 'node:http';
import { MIMEType } from 'node:util';
import type { FastifyRequest } from 'fastify';
import { type ErrorDefinition, HTTP_ERRORS, HttpError } from './errors.ts';
import { parseExactJson } from './exactJson.ts';
import { fieldCount } from './fieldCount.ts';

/** Below the maximum size of an entry (tlog-tiles), so that the event can add its own fields to the body. */
export const MAX_BODY_BYTES = 60 * 1024;
const EMPTY: Buffer = Buffer.alloc(0);
/** An event and not a callback, with which V8 would keep each request until a full garbage collection. */
const COMPLETE = Symbol('the body is complete');

export function hasBody({ headers }: IncomingMessage): boolean {
  return headers['content-length'] !== undefined || headers['transfer-encoding'] !== undefined;
}

type Done<Result> = (error: Error | null, result?: Result) => void;

/** Gathers the body of a request in one buffer as it arrives: in Node's pieces, one byte can take hundreds. */
class Body {
  /** The number of bytes that have arrived. */
  length = 0;
  #bytes: Buffer = EMPTY;
  #error: HttpError | null = null;
  #isComplete = false;
  readonly #request: IncomingMessage;

  constructor(request: IncomingMessage) {
    this.#request = request;
    if (Number(request.headers['content-length']) > MAX_BODY_BYTES) this.#end(HTTP_ERRORS.bodyTooLarge);
    request.on('data', (piece: Buffer) => this.#add(piece));
    request.once('end', () => this.#end());
    request.once('error', () => this.#end(HTTP_ERRORS.malformedHttp, 'The body is incomplete.'));
  }

  /** Calls `done` with the whole body or an HttpError. */
  read(done: Done<Buffer>): void {
    if (this.#isComplete) done(this.#error, this.#bytes.subarray(0, this.length));
    else this.#request.once(COMPLETE, () => this.read(done));
  }

  #end(definition?: ErrorDefinition, message?: string): void {
    if (this.#isComplete) return;
    this.#isComplete = true;
    if (definition) this.#error = new HttpError(definition, message);
    this.#request.emit(COMPLETE);
  }

  #add(piece: Buffer): void {
    if (this.#isComplete) return;
    const start = this.length;
    this.length += piece.length;
    if (this.length > MAX_BODY_BYTES) {
      this.#end(HTTP_ERRORS.bodyTooLarge);
      return;
    }
    if (start === 0) {
      this.#bytes = piece; // most bodies are one piece
      return;
    }
    if (this.length > this.#bytes.length) {
      const larger = Buffer.allocUnsafe(Math.min(2 * this.length, MAX_BODY_BYTES));
      this.#bytes.copy(larger, 0, 0, start);
      this.#bytes = larger;
    }
    piece.copy(this.#bytes, start);
  }
}

/** A request whose body can be gathered before a route reads it. */
export class RequestWithBody extends IncomingMessage {
  #body: Body | undefined;

  /** The number of gathered bytes. */
  get gathered(): number {
    return this.#body?.length ?? 0;
  }

  /** Starts to gather the body in one buffer. */
  gather(): Body {
    this.#body ??= new Body(this);
    return this.#body;
  }
}

export function parseJsonBody(request: FastifyRequest, payload: IncomingMessage, done: Done<unknown>): void {
  const body = payload instanceof RequestWithBody ? payload.gather() : new Body(payload); // a payload of `inject`
  body.read((error, bytes = EMPTY) => {
    if (error) return done(error);
    let value: unknown;
    try {
      assertUtf8(request);
      value = parseExactJson(bytes);
    } catch (invalid) {
      return done(invalid as Error);
    }
    done(null, value);
  });
}

/** @throws HttpError */
function assertUtf8({ headers, raw }: FastifyRequest): void {
  const { 'content-type': type = '', 'content-encoding': encoding = 'identity' } = headers;
  if (fieldCount(raw, 'content-type') > 1 || !isUtf8Type(type) || encoding.toLowerCase() !== 'identity')
    throw new HttpError(
      HTTP_ERRORS.unsupportedMediaType,
      'The body must be in UTF-8, without a content encoding.',
    );
}

/** Whether a media type (https://mimesniff.spec.whatwg.org) has a charset that means UTF-8, or none. */
function isUtf8Type(type: string): boolean {
  try {
    return new TextDecoder(new MIMEType(type).params.get('charset') ?? 'utf-8').encoding === 'utf-8';
  } catch {
    return false;
  }
}
