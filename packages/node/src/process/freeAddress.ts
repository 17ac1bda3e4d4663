import { lookup } from 'node:dns/promises';
import { once } from 'node:events';
import { createServer } from 'node:net';

/** Resolves a host to an address. @throws Error if a server cannot listen there */
export async function freeAddress({ host, port }: { host: string; port: number }): Promise<string> {
  const { address } = await lookup(host);
  const probe = createServer((socket) => socket.destroy()).listen(port, address);
  await once(probe, 'listening');
  probe.close();
  await once(probe, 'close');
  return address;
}
