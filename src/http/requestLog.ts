import type { FastifyReply, FastifyRequest } from 'fastify';
import { traceparentOf } from './traceparent.ts';

/** Logs one line per request, when its response is sent or its client has disconnected. */
export function logWhenClosed(request: FastifyRequest, reply: FastifyReply): void {
  reply.raw.once('close', () => logRequest(request, reply));
}

/** Without the query: clients put tokens into it. */
function logRequest(
  { user, method, url, headers, log }: FastifyRequest,
  { statusCode, elapsedTime, raw }: FastifyReply,
): void {
  const ms = Math.round(elapsedTime * 100) / 100;
  const status = raw.headersSent ? statusCode : undefined;
  const disconnected = raw.writableFinished ? undefined : true;
  const traceparent = traceparentOf(headers);
  log.info(
    { user: user || undefined, method, path: pathOf(url), status, ms, disconnected, traceparent },
    'request',
  );
}

/** The path of a request target (RFC 9112 section 3.2), without origin, query and fragment. */
export function pathOf(url: string): string {
  return url.replace(/^https?:\/\/[^/?#]*/i, '').replace(/[?#].*$/s, '');
}
