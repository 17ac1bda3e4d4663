import { createServer, type Server, type ServerOptions } from 'node:http';
import { gatherBody, hasBody } from './body.ts';
import { type Handle, handleInOrder } from './pipelining.ts';
import { UnreadResponses } from './unreadResponses.ts';

const CHECK_INTERVAL_MS = 1_000;

/** Gets how many connections were closed in the last second, because they had too much waiting or unread. */
type OnClosed = (closed: { waiting: number; unread: number }) => void;

/** An HTTP server whose memory for what its clients pipeline, and do not read, is bounded. */
export function boundedServer(options: ServerOptions, handle: Handle, onClosed: OnClosed): Server {
  let closed = { waiting: 0, unread: 0 };
  const unread = new UnreadResponses(() => closed.unread++);
  const handleNext: Handle = (request, response) => {
    handle(request, response);
    unread.onRequest();
  };
  const server = createServer(options, (request) => {
    if (hasBody(request)) gatherBody(request);
  });
  handleInOrder(server, handleNext, () => closed.waiting++);
  server.on('connection', (socket) => unread.add(socket));
  server.once('listening', () => {
    const timer = setInterval(() => {
      unread.onSecond();
      if (closed.waiting + closed.unread === 0) return;
      onClosed(closed);
      closed = { waiting: 0, unread: 0 };
    }, CHECK_INTERVAL_MS);
    timer.unref();
    server.once('close', () => clearInterval(timer));
  });
  return server;
}
