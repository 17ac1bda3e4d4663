import type { FastifyReply, FastifyRequest } from 'fastify';

/** One line a request, once its answer is out or nobody waits for it any more. */
export function logWhenClosed(request: FastifyRequest, reply: FastifyReply): void {
  reply.raw.once('close', () => logRequest(request, reply));
}

/** The query is dropped, since somebody will put a token into it. */
function logRequest(
  { user, method, url, log }: FastifyRequest,
  { statusCode, elapsedTime, raw }: FastifyReply,
): void {
  const ms = Math.round(elapsedTime * 100) / 100;
  const status = raw.headersSent ? statusCode : undefined;
  const clientLeft = raw.writableFinished ? undefined : true;
  log.info({ user: user || undefined, method, path: pathOf(url), status, ms, clientLeft }, 'request');
}

/** The path of a request's target (RFC 9112 section 3.2), without query, fragment and whatever stood before the path. */
export function pathOf(url: string): string {
  return url.replace(/^https?:\/\/[^/?#]*/i, '').replace(/[?#].*$/s, '');
}
