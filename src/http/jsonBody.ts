import type { FastifyRequest } from 'fastify';
import { BadRequest, NUMBERS } from './errors.ts';
import { parseJson } from './json.ts';

type Done = (error: Error | null, body?: unknown) => void;

/** The parser of application/json bodies. */
export function jsonBody(request: FastifyRequest, body: string | Buffer, done: Done): void {
  try {
    done(null, parseBody(request, body as Buffer));
  } catch (error) {
    done(error as Error);
  }
}

function parseBody({ headers }: FastifyRequest, body: Buffer): unknown {
  const charset = /;\s*charset\s*=\s*("?)([^;"\s]*)\1/i.exec(headers['content-type'] ?? '')?.[2] ?? 'utf-8';
  const encoding = headers['content-encoding'] ?? 'identity';
  if (charset.toLowerCase() !== 'utf-8' || encoding.toLowerCase() !== 'identity') {
    throw new BadRequest(NUMBERS.wrongMediaType, 'The body must be in UTF-8, without a content encoding.');
  }
  return parseJson(body);
}
