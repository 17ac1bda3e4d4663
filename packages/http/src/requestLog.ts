import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Metrics } from './metrics/metrics.ts';
import { activeTraceparent } from './traceparent.ts';

/** A longer path is cut in the log: no route has one, and clients choose it. */
const MAX_PATH_LENGTH = 256;

declare module 'fastify' {
  interface FastifyRequest {
    /** The fields of the log line that say why the request failed. */
    failure: { error: number; reason?: string; err?: unknown } | undefined;
  }
}

/** Logs one line per request, when its response is sent or its client has disconnected. */
export function logWhenClosed(request: FastifyRequest, reply: FastifyReply, metrics?: Metrics): void {
  const traceparent = activeTraceparent(request.headers);
  reply.raw.once('close', () => {
    const { user, method, url, log, failure } = request;
    const line = {
      user: user || undefined,
      method,
      path: shorten(parsePath(url)), // without the query, which may contain tokens
      status: reply.raw.headersSent ? reply.statusCode : undefined,
      ms: Math.round(reply.elapsedTime * 100) / 100,
      disconnected: reply.raw.writableFinished ? undefined : true,
      traceparent,
    };
    if (failure) log.error({ ...line, ...failure }, 'request failed');
    else log.info(line, 'request');
    const route = request.is404 ? undefined : request.routeOptions.url;
    metrics?.onRequest({ method, route, status: line.status, seconds: reply.elapsedTime / 1_000 });
  });
}

const shorten = (path: string): string =>
  path.length > MAX_PATH_LENGTH ? `${path.slice(0, MAX_PATH_LENGTH)}…` : path;

/** The path of a request target (RFC 9112 section 3.2), without origin, query and fragment. */
export function parsePath(url: string): string {
  return url.replace(/^https?:\/\/[^/?#]*/i, '').replace(/[?#].*$/s, '');
}
