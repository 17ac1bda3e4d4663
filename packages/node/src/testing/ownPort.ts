import { once } from 'node:events';
import { createServer, type Server } from 'node:net';

// Ports below the ephemeral ones (Linux: from 32 768; RFC 6335, section 6: from 49 152), a block of them for each
// process. So no other process is assigned the port of a stopped server before it listens again.
const FIRST = 10_000;
const BLOCK = 64;
const BLOCKS = 355;

let next = 0;
const ownPort = (): number => FIRST + (process.pid % BLOCKS) * BLOCK + (next++ % BLOCK);

/**
 * Listens on this port of 127.0.0.1, or, if it is 0, on a free one of this process; returns the port. Rejects if the
 * port is in use.
 */
export async function listenOn(server: Server, port = 0): Promise<number> {
  const used = port || ownPort();
  try {
    await once(server.listen(used, '127.0.0.1'), 'listening');
    return used;
  } catch (error) {
    if (port || (error as NodeJS.ErrnoException).code !== 'EADDRINUSE') throw error;
    return listenOn(server);
  }
}

/** A port on which a process that is started now can listen. */
export async function freePort(): Promise<number> {
  await using server = createServer();
  return await listenOn(server);
}
