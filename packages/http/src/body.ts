import type { IncomingMessage } from 'node:http';
import type { FastifyRequest } from 'fastify';
import { HTTP_ERRORS, HttpError } from './errors.ts';
import { parseExactJson } from './exactJson.ts';

/** Less than an entry of a tiled log may have (tlog-tiles), whatever the event adds to the body. */
export const MAX_BODY_BYTES = 60 * 1024;

type Done<Result> = (error: Error | null, result?: Result) => void;

type Body = { bytes: Buffer; length: number; isComplete: boolean; error?: Error };

/** The property of a request that has its body, and the event that it is complete. */
const BODY = Symbol('body');
type WithBody = IncomingMessage & { [BODY]?: Body };
const EMPTY = Buffer.alloc(0);

export function hasBody({ headers }: IncomingMessage): boolean {
  return headers['content-length'] !== undefined || headers['transfer-encoding'] !== undefined;
}

/** Gathers a body as it arrives: Node would keep it in pieces, of which one of a byte takes two hundred. */
export function gatherBody(request: WithBody): Body {
  const body: Body = { bytes: EMPTY, length: 0, isComplete: false };
  request[BODY] = body;
  const end = (error?: Error): void => {
    if (body.isComplete) return;
    body.isComplete = true;
    if (error) Object.assign(body, { error, bytes: EMPTY, length: 0 });
    request.emit(BODY);
  };
  if (Number(request.headers['content-length']) > MAX_BODY_BYTES)
    end(new HttpError(HTTP_ERRORS.bodyTooLarge));
  request.on('data', (piece: Buffer) => {
    if (body.isComplete) return;
    if (body.length + piece.length > MAX_BODY_BYTES) end(new HttpError(HTTP_ERRORS.bodyTooLarge));
    else append(body, piece);
  });
  request.once('end', () => end());
  request.once('error', () => end(new HttpError(HTTP_ERRORS.malformedHttp, 'The body is incomplete.')));
  return body;
}

function append(body: Body, piece: Buffer): void {
  const length = body.length + piece.length;
  if (body.length === 0)
    body.bytes = piece; // most bodies are one piece
  else {
    if (length > body.bytes.length) {
      const larger = Buffer.allocUnsafe(Math.min(2 * length, MAX_BODY_BYTES));
      body.bytes.copy(larger, 0, 0, body.length);
      body.bytes = larger;
    }
    piece.copy(body.bytes, body.length);
  }
  body.length = length;
}

export function readBody(request: WithBody, done: Done<Buffer>): void {
  const body = request[BODY] ?? gatherBody(request);
  const onComplete = (): void => done(body.error ?? null, body.bytes.subarray(0, body.length));
  if (body.isComplete) onComplete();
  else request.once(BODY, onComplete);
}

export function parseJsonBody(request: FastifyRequest, payload: IncomingMessage, done: Done<unknown>): void {
  readBody(payload, (error, bytes) => {
    let body: unknown;
    try {
      if (error) throw error;
      assertUtf8(request.headers);
      body = parseExactJson(bytes as Buffer);
    } catch (invalid) {
      return done(invalid as Error);
    }
    done(null, body);
  });
}

function assertUtf8(headers: FastifyRequest['headers']): void {
  const charset = /;\s*charset\s*=\s*("?)([^;"\s]*)\1/i.exec(headers['content-type'] ?? '')?.[2] ?? 'utf-8';
  const encoding = headers['content-encoding'] ?? 'identity';
  if (charset.toLowerCase() !== 'utf-8' || encoding.toLowerCase() !== 'identity')
    throw new HttpError(
      HTTP_ERRORS.unsupportedMediaType,
      'The body must be in UTF-8, without a content encoding.',
    );
}
