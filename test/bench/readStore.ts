import { openSqliteEventStore } from '../../src/eventStore/sqlite.ts';

// The bare read loop: every event of a log is read and counted, and nothing else.

const store = await openSqliteEventStore({
  file: process.argv[2] as string,
  now: () => new Date(),
  onFatal: (error) => {
    throw error;
  },
});
let count = 0;
for await (const { events, caughtUp } of store.subscribe({
  after: 0n,
  signal: new AbortController().signal,
})) {
  count += events.length;
  if (caughtUp) break;
}
console.log(count);
await store.close();
