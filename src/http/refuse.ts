import { randomUUID } from 'node:crypto';
import { type ServerResponse, STATUS_CODES } from 'node:http';
import type { Socket } from 'node:net';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { answerTo, answerToParser } from './errors.ts';

/** The error handler: the error's answer, and a line in the log where the fault is ours. */
export function refuse(error: unknown, request: FastifyRequest, reply: FastifyReply): void {
  const { status, body, headers } = answerTo(error);
  if (status >= 500) request.log.error({ err: error }, 'a request failed');
  reply.code(status).headers(headers).type('application/json; charset=utf-8').send(body);
}

/** Refuses what never became a request: malformed HTTP, or bytes that took too long. */
export function refuseConnection(this: FastifyInstance, error: NodeJS.ErrnoException, socket: Socket): void {
  const current = (socket as Socket & { _httpMessage?: ServerResponse })._httpMessage;
  if (current?.req.complete && error.code !== 'ECONNRESET') {
    // Sent now, it would be taken for the answer to the request before.
    current.once('close', () => refuseConnection.call(this, error, socket));
    return;
  }
  if (error.code === 'ECONNRESET' || !socket.writable || current?.headersSent) {
    socket.destroy();
    return;
  }
  const requestId = randomUUID();
  const { status, body } = answerToParser(error);
  this.log.info({ requestId, status, code: error.code }, 'not a request');
  const text = JSON.stringify(body);
  const head = {
    'request-id': requestId,
    'cache-control': 'no-store',
    'content-type': 'application/json; charset=utf-8',
    'content-length': Buffer.byteLength(text),
    connection: 'close',
  };
  const lines = Object.entries(head).map(([name, value]) => `${name}: ${value}\r\n`);
  socket.end(`HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\n${lines.join('')}\r\n${text}`);
}
