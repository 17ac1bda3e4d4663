import { once } from 'node:events';
import type { Server } from 'node:http';
import type { AddressInfo } from 'node:net';

/** Where to listen; the port 0 selects a free one. */
export type Address = { host: string; port: number };

/** Starts to listen, and returns the URL. @throws Error */
export async function listen(server: Server, { host, port }: Address): Promise<string> {
  server.listen(port, host);
  await once(server, 'listening');
  const bound = server.address() as AddressInfo;
  return `http://${bound.family === 'IPv6' ? `[${bound.address}]` : bound.address}:${bound.port}`;
}

/** @throws Error that names the option */
export function parsePort(text: string, option: string): number {
  if (!/^\d{1,5}$/.test(text) || Number(text) > 65_535)
    throw new Error(`${option} must be a port from 0 to 65535; 0 selects a free one.`);
  return Number(text);
}

/** What an URL must be, for messages. */
export const URL_RULE = 'an http or https URL without user, query and fragment';

/** An URL to which paths are appended, without a slash at its end; undefined if it is malformed. */
export function parseHttpUrl(text: string): string | undefined {
  const url = URL.parse(text);
  if (!url || !/^https?:$/.test(url.protocol)) return undefined;
  return url.username + url.password + url.search + url.hash === ''
    ? url.href.replace(/\/+$/, '')
    : undefined;
}
