import { openSqliteStore } from '../../src/eventStore/sqlite/store.ts';

// The bare read loop: reads and counts every event of a log.

const store = await openSqliteStore({
  file: process.argv[2] as string,
  now: () => new Date(),
  onFatal: console.error,
});
let count = 0;
const { signal } = new AbortController();
for await (const { events, caughtUp } of store.subscribe({ after: 0n, signal })) {
  count += events.length;
  if (caughtUp) break;
}
console.log(count);
await store.close();
