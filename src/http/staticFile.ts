import { hash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { Readable } from 'node:stream';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { HTTP_ERRORS, HttpError } from './errors.ts';

/** A file of a page, in memory: all responses share it, and none of them has it open. */
export type StaticFile = { type: string; content: Buffer; etag: string };

export function staticFile(type: string, content: Buffer): StaticFile {
  return { type, content, etag: `"${hash('sha256', content).slice(0, 32)}"` };
}

export function readStaticFile(type: string, path: string): StaticFile {
  return staticFile(type, readFileSync(path));
}

/** Sent at a time, so that a slow client is seen to read, and has little queued for it. */
const PIECE_BYTES = 64 * 1024;

function* piecesOf(content: Buffer): Generator<Buffer> {
  for (let at = 0; at < content.length; at += PIECE_BYTES) yield content.subarray(at, at + PIECE_BYTES);
}

/** Sends a file, or 304 if the client has it. @throws HttpError if there is none */
export function sendFile(
  { headers }: FastifyRequest,
  reply: FastifyReply,
  file: StaticFile | undefined,
): FastifyReply {
  if (!file) throw new HttpError(HTTP_ERRORS.notFound);
  reply.header('cache-control', 'no-cache').header('etag', file.etag).type(file.type);
  if (headers['if-none-match'] === file.etag) return reply.code(304).send();
  reply.header('content-length', file.content.length);
  return reply.send(Readable.from(piecesOf(file.content), { highWaterMark: 1 }));
}
