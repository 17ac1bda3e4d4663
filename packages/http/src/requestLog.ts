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
    const { user, method, url, headers, log } = request;
    const line = {
      user: user || undefined,
      method,
      path: pathOf(url), // without the query: clients put tokens into it
      status: reply.raw.headersSent ? reply.statusCode : undefined,
      ms: Math.round(reply.elapsedTime * 100) / 100,
      disconnected: reply.raw.writableFinished ? undefined : true,
      traceparent: traceparentOf(headers),
    };
    log.info(line, 'request');
    const route = request.is404 ? undefined : request.routeOptions.url;
    onClosed?.({ method, route, status: line.status, seconds: reply.elapsedTime / 1_000 });
  });
}

/** The path of a request target (RFC 9112 section 3.2), without origin, query and fragment. */
export function pathOf(url: string): string {
  return url.replace(/^https?:\/\/[^/?#]*/i, '').replace(/[?#].*$/s, '');
}
