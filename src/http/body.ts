import type { IncomingMessage } from 'node:http';
import { HTTP_ERRORS, HttpError } from './errors.ts';

/** Less than an entry of a tiled log may have (tlog-tiles), whatever the event adds to the plant. */
export const MAX_BODY_BYTES = 60 * 1024;

type Done = (error: Error | null, bytes: Buffer) => void;

const BODY = Symbol('body');
const EMPTY = Buffer.alloc(0);

/**
 * Gathers the body of a request, if it has one, as soon as its head was read. Left to Node, a body that waits, or that
 * nobody reads, is kept in the pieces in which it came; each may be a byte, and takes two hundred.
 */
export function gatherBody(request: IncomingMessage): void {
  if (hasBody(request)) bodyOf(request);
}

export function hasBody({ headers }: IncomingMessage): boolean {
  return headers['content-length'] !== undefined || headers['transfer-encoding'] !== undefined;
}

/** Calls `done` with the whole body. It fails with HttpError. */
export function readBody(request: IncomingMessage, done: Done): void {
  bodyOf(request).read(done);
}

function bodyOf(request: IncomingMessage & { [BODY]?: Body }): Body {
  request[BODY] ??= new Body(request);
  return request[BODY];
}

class Body {
  #bytes: Buffer = EMPTY;
  #length = 0;
  #isComplete = false;
  #error: Error | null = null;
  #done: Done | undefined;

  constructor(request: IncomingMessage) {
    if (Number(request.headers['content-length']) > MAX_BODY_BYTES) this.#fail(tooLarge());
    request.on('data', (piece: Buffer) => this.#add(piece));
    request.once('end', () => this.#end());
    request.once('error', () =>
      this.#fail(new HttpError(HTTP_ERRORS.malformedHttp, 'The body is incomplete.')),
    );
  }

  read(done: Done): void {
    if (this.#isComplete) done(this.#error, this.#bytes.subarray(0, this.#length));
    else this.#done = done;
  }

  /** After an error, pieces are dropped. */
  #add(piece: Buffer): void {
    if (this.#isComplete) return;
    const length = this.#length + piece.length;
    if (length > MAX_BODY_BYTES) {
      this.#fail(tooLarge());
      return;
    }
    if (this.#length === 0)
      this.#bytes = piece; // most bodies are one piece
    else {
      if (length > this.#bytes.length) {
        const larger = Buffer.allocUnsafe(Math.min(2 * length, MAX_BODY_BYTES));
        this.#bytes.copy(larger, 0, 0, this.#length);
        this.#bytes = larger;
      }
      piece.copy(this.#bytes, this.#length);
    }
    this.#length = length;
  }

  #fail(error: Error): void {
    if (this.#isComplete) return;
    this.#error = error;
    this.#bytes = EMPTY;
    this.#length = 0;
    this.#end();
  }

  #end(): void {
    if (this.#isComplete) return;
    this.#isComplete = true;
    if (this.#done) this.read(this.#done);
  }
}

const tooLarge = (): HttpError => new HttpError(HTTP_ERRORS.bodyTooLarge);
