import type { IncomingMessage } from 'node:http';
import type { FastifyRequest } from 'fastify';
import { readBody } from './body.ts';
import { HTTP_ERRORS, HttpError } from './errors.ts';
import { parseExactJson } from './exactJson.ts';

type Done = (error: Error | null, body?: unknown) => void;

/** Fastify's content type parser for application/json. */
export function parseJsonBody(request: FastifyRequest, payload: IncomingMessage, done: Done): void {
  readBody(payload, (error, bytes) => {
    if (error) return done(error);
    let body: unknown;
    try {
      assertUtf8(request);
      body = parseExactJson(bytes);
    } catch (invalid) {
      return done(invalid as Error);
    }
    done(null, body);
  });
}

function assertUtf8({ headers }: FastifyRequest): void {
  const charset = /;\s*charset\s*=\s*("?)([^;"\s]*)\1/i.exec(headers['content-type'] ?? '')?.[2] ?? 'utf-8';
  const encoding = headers['content-encoding'] ?? 'identity';
  if (charset.toLowerCase() !== 'utf-8' || encoding.toLowerCase() !== 'identity') {
    throw new HttpError(
      HTTP_ERRORS.unsupportedMediaType,
      'The body must be in UTF-8, without a content encoding.',
    );
  }
}
