import type { FastifyReply, FastifyRequest } from 'fastify';

/** One line a request; the query is dropped, since somebody will put a token into it. */
export function logRequest(
  { user, method, url, log }: FastifyRequest,
  { statusCode, elapsedTime }: FastifyReply,
): void {
  const ms = Math.round(elapsedTime * 100) / 100;
  log.info({ user, method, path: pathOf(url), status: statusCode, ms }, 'request');
}

function pathOf(url: string): string {
  const query = url.indexOf('?');
  return query === -1 ? url : url.slice(0, query);
}
