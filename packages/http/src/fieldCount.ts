import type { IncomingMessage } from 'node:http';

/** The number of header fields with a name in lower case. Node itself drops most repetitions. */
export function fieldCount({ rawHeaders }: IncomingMessage, name: string): number {
  let count = 0;
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const field = rawHeaders[i] as string;
    if (field.length === name.length && field.toLowerCase() === name) count++;
  }
  return count;
}
