import type { FastifyReply, FastifyRequest } from 'fastify';
import { traceparentOf } from './traceparent.ts';

/**
 * A request whose response is sent, or whose client has disconnected. `route` is the pattern of its path, undefined if
 * it has no route; `status` is undefined if no response was begun.
 */
export type ClosedRequest = {
  method: string;
  route: string | undefined;
  status: number | undefined;
  seconds: number;
};

/** Logs one line per request, when its response is sent or its client has disconnected; then calls `onClosed`. */
export function logWhenClosed(
  request: FastifyRequest,
  reply: FastifyReply,
  onClosed?: (request: ClosedRequest) => void,
): void {
  reply.raw.once('close', () => {
    const status = reply.raw.headersSent ? reply.statusCode : undefined;
    logRequest(request, reply, status);
    onClosed?.({
      method: request.method,
      route: request.is404 ? undefined : request.routeOptions.url,
      status,
      seconds: reply.elapsedTime / 1_000,
    });
  });
}

/** Without the query: clients put tokens into it. */
function logRequest(
  { user, method, url, headers, log }: FastifyRequest,
  { elapsedTime, raw }: FastifyReply,
  status: number | undefined,
): void {
  const ms = Math.round(elapsedTime * 100) / 100;
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
