import { PassThrough, Readable } from 'node:stream';
import type { ResolvedEvent } from '@eventstore/db-client';
import { status } from '@grpc/grpc-js';

/** A read of EventStoreDB's client: a stream into which it pipes a call, which ends with a status. */
export function clientRead(events: readonly object[], code = status.OK) {
  const call = Object.assign(Readable.from(events.map((event) => ({ event }) as ResolvedEvent)), {
    getPeer: () => '127.0.0.1:2113',
  });
  call.once('end', () => call.emit('status', { code }));
  const stream = new PassThrough({ objectMode: true });
  queueMicrotask(() => call.pipe(stream));
  return Object.assign(stream, { cancel: async () => {} });
}
