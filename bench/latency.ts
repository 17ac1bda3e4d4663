import { createHistogram, type RecordableHistogram } from 'node:perf_hooks';
import { parentPort } from 'node:worker_threads';
import type { Client } from 'autocannon';

// Loaded by each of autocannon's workers. autocannon itself counts whole milliseconds.

/** A message of a worker to its parent: its latencies in microseconds. */
export type Latencies = { latencies: RecordableHistogram };

let latencies: RecordableHistogram | undefined;

function setupClient(client: Client): void {
  latencies ??= sent(createHistogram());
  client.on('response', (_status, _bytes, ms) => latencies?.record(Math.ceil(ms * 1_000)));
}

function sent(created: RecordableHistogram): RecordableHistogram {
  parentPort?.postMessage({ latencies: created } satisfies Latencies);
  return created;
}

export { setupClient as 'module.exports' };
