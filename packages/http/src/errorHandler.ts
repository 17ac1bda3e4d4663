import { randomUUID } from 'node:crypto';
import { STATUS_CODES } from 'node:http';
import type { Socket } from 'node:net';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { tokenRejection } from './auth.ts';
import { currentResponse, isInputLeft } from './boundedServer.ts';
import { type ErrorDefinitions, errorResponse, HTTP_ERRORS } from './errors.ts';
import { invalidTokenLogger } from './invalidTokenLogger.ts';
import type { Metrics } from './metrics/metrics.ts';
import { RESPONSE_HEADERS } from './responseHeaders.ts';
import type { InvalidToken } from './tokens/tokenVerifier.ts';

/** After a response to a request that was not read completely. */
const LINGER_MS = 1_000;

type ErrorHandler = (error: unknown, request: FastifyRequest, reply: FastifyReply) => void;

/** The error handler of the server. The request's log line gets an internal error, or the reason of another 5xx. */
export function errorHandler(errors: ErrorDefinitions, metrics?: Metrics): ErrorHandler {
  const logInvalidToken = invalidTokenLogger();
  return (error, request, reply) => {
    const rejection = tokenRejection(error);
    if (rejection) metrics?.onTokenRejected(rejection);
    if (rejection === 'invalid') logInvalidToken(request.server.log, error as InvalidToken);
    const { status, body, headers } = errorResponse(errors, error);
    if (status >= 500 && status !== 505)
      request.failure = {
        error: body.error,
        ...(status === 500 ? { err: error } : { reason: causeChain(error as Error) }),
      };
    // The failed response may have set these headers.
    reply.removeHeader('content-encoding').removeHeader('link').header('cache-control', 'no-store');
    reply.code(status).headers(headers).type('application/json').send(body);
  };
}

/** The messages of an error and its causes, each once. An AggregateError of Node has a code only. */
export function causeChain(error: Error): string {
  let reason = error.message;
  for (let at = error.cause; at instanceof Error; at = at.cause) {
    const message = at.message || String((at as NodeJS.ErrnoException).code);
    if (!reason.includes(message)) reason += `: ${message}`;
  }
  return reason;
}

/** Responds to malformed HTTP, and to a request that did not arrive in time. */
export function handleClientError(this: FastifyInstance, error: NodeJS.ErrnoException, socket: Socket): void {
  const current = currentResponse(socket);
  if (current?.req.complete && error.code !== 'ECONNRESET') {
    // The request may have arrived in time but still be unread. If not, the idle connection is closed later.
    if (error.code === 'ERR_HTTP_REQUEST_TIMEOUT') return;
    socket.pause(); // the rest of the input cannot be parsed
    // Earlier, the client would take this response for the one to its previous request.
    current.once('close', () => handleClientError.call(this, error, socket));
    return;
  }
  // The client would take this response for the one to its next request.
  if (
    socket.bytesRead === 0 ||
    error.code === 'ECONNRESET' ||
    !socket.writable ||
    current?.headersSent ||
    isInputLeft(socket)
  ) {
    socket.destroy();
    return;
  }
  const requestId = randomUUID();
  const { status, body } = errorResponse(HTTP_ERRORS, error, HTTP_ERRORS.malformedHttp);
  this.log.info({ requestId, status, code: error.code }, 'malformed request');
  const text = JSON.stringify(body);
  const headers = {
    'request-id': requestId,
    ...RESPONSE_HEADERS,
    'content-type': 'application/json; charset=utf-8',
    'content-length': Buffer.byteLength(text),
    connection: 'close',
  };
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`);
  socket.write(`HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\n${lines.join('')}\r\n${text}`);
  linger(socket);
}

/** Ends a connection with unread input. Closing it at once would reset it, and lose the last response. */
function linger(socket: Socket): void {
  socket.pause().end();
  const timer = setTimeout(() => socket.destroy(), LINGER_MS);
  socket.once('close', () => clearTimeout(timer));
}
