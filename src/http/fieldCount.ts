import type { IncomingMessage } from 'node:http';

/** How often a request has a header field; its name is in lower case. Node itself drops most repetitions. */
export function fieldCount({ rawHeaders }: IncomingMessage, name: string): number {
  let count = 0;
  for (let i = 0; i < rawHeaders.length; i += 2) if (rawHeaders[i]?.toLowerCase() === name) count++;
  return count;
}
