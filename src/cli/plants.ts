import type { Writable } from 'node:stream';
import {
  assertInLog,
  type EventLog,
  type Position,
  parsePosition,
  readToEnd,
  START,
} from '@event-sourced/event-log';
import { EVENTS_ERASED, parseRecord, recordStreams } from '@event-sourced/event-log/erasure';
import { replay, toCloudEvent } from '@event-sourced/event-log/replay';
import { isRfc3339 } from '@event-sourced/event-log/time';
import { printable } from '@event-sourced/transparency-log';
import { PLANT_STREAM_PREFIX, parsePlantStream } from '../plants/stream.ts';
import { VIEWS } from '../views.ts';
import { type Context, useLog, write } from './context.ts';
import { parseEventOptions } from './eventOptions.ts';

type Options = { user: string; at?: string; table?: true };

const PAGE_SIZE = 500;

/** Prints a user's plants at a point in time, as GET /plants would have listed them, or as a table with their IDs. */
export async function plantsCommand({ user, at, table }: Options, context: Context): Promise<void> {
  const { config, output, signal } = context;
  const { end, until } = parsePointInTime(at);
  const filter = parseEventOptions({ user, ...(until !== undefined && { until }) });
  await using resources = new AsyncDisposableStack();
  const log = await useLog(resources, context);
  assertInLog(end ?? START, await log.lastPosition(), '--at');
  const erased = await countErased(log, signal);
  if (erased > 0)
    context.print(`${erased} events of the log were erased; plants of these events are not listed`);
  const plants = resources.adopt(VIEWS.plantsByUser.open(':memory:'), (view) => view.close());
  for await (const { events } of replay(log, filter, { signal, end }))
    plants.apply(events, config.skipEvents);
  signal.throwIfAborted();
  if (table) return await writeTable(user, { plants, log, output });
  const query = { upTo: plants.progress.position, limit: PAGE_SIZE };
  let page = plants.readPage(user, { ...query, after: START });
  await write(output, `[${page.plants}`);
  while (page.hasMore) {
    page = plants.readPage(user, { ...query, after: page.last });
    await write(output, `,${page.plants}`);
  }
  await write(output, ']\n');
}

/** The number of events that the service has erased in the whole log, of any user: the log does not name them. */
async function countErased(log: EventLog, signal: AbortSignal): Promise<number> {
  let count = 0;
  for await (const { events } of readToEnd(log, { prefix: recordStreams(PLANT_STREAM_PREFIX) })) {
    signal.throwIfAborted();
    for (const { type, data } of events) if (type === EVENTS_ERASED) count += parseRecord(data)?.length ?? 0;
  }
  return count;
}

type Source = { plants: ReturnType<typeof VIEWS.plantsByUser.open>; log: EventLog; output: Writable };

async function writeTable(user: string, { plants, log, output }: Source): Promise<void> {
  const row = (id: string, time: string, plant: string): string =>
    printable(`${id.padStart(20)}  ${time.padEnd(24)}  ${plant}`);
  await write(output, `${row('id', 'time', 'plant')}\n`);
  const query = { upTo: plants.progress.position, limit: 1 };
  for (let after = START; ; ) {
    const { plants: plant, count, last } = plants.readPage(user, { ...query, after });
    const event = count > 0 ? await log.readEvent(last) : undefined;
    if (!event) return;
    const { time = '' } = toCloudEvent(event, { source: '' });
    await write(output, `${row(parsePlantStream(event.stream)?.id ?? '', time, plant)}\n`);
    after = last;
  }
}

/** A position of the log, or a time. @throws Error */
function parsePointInTime(at?: string): { end?: Position; until?: string } {
  if (at === undefined) return {};
  if (/^\d+$/.test(at)) return { end: parsePosition(at, '--at') };
  if (isRfc3339(at)) return { until: at };
  throw new Error('--at must be a log position, or an RFC 3339 time such as 2026-03-01T12:00:00Z.');
}
