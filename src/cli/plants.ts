import type { Writable } from 'node:stream';
import {
  assertInLog,
  type EventLog,
  type Position,
  parsePosition,
  type RecordedEvent,
  readToEnd,
  START,
} from '@event-sourced/event-log';
import { occurredAt, toCloudEvent, UnknownUser } from '@event-sourced/event-log/replay';
import { parseRfc3339 } from '@event-sourced/event-log/time';
import { printable } from '@event-sourced/transparency-log';
import { isUser, parsePlantStream, USER_RULE, VIEWS } from '../domain.ts';
import { type Context, useLog, write } from './context.ts';

type Options = { user: string; at?: string; table?: true };

const PAGE_SIZE = 500;

/** A position of the log, or a time in milliseconds since 1970. */
type PointInTime = { position?: Position; time?: number };

/** Prints a user's plants at a point in time, as GET /plants would have listed them, or as a table with their IDs. */
export async function plantsCommand({ user, at, table }: Options, context: Context): Promise<void> {
  const { config, output, signal } = context;
  if (!isUser(user)) throw new Error(`--user must be ${USER_RULE}.`);
  const point = at === undefined ? {} : parsePointInTime(at);
  await using resources = new AsyncDisposableStack();
  const log = await useLog(resources, context);
  assertInLog(point.position ?? START, await log.lastPosition(), '--at');
  const plants = resources.adopt(VIEWS.plantsByUser.open(':memory:'), (view) => view.close());
  let isKnown = false;
  for await (const { events } of readToEnd(log, { signal })) {
    for (const event of events) {
      if (parsePlantStream(event.stream)?.user !== user) continue;
      isKnown = true;
      if (isBy(event, point)) plants.apply([event], config.skipEvents);
    }
    if (isKnown && point.position !== undefined && (events.at(-1)?.position ?? START) >= point.position)
      break;
  }
  signal.throwIfAborted();
  if (!isKnown) throw new UnknownUser(user);
  if (table) return await writeTable(user, { plants, log, output });
  const query = { upTo: plants.applied.position, limit: PAGE_SIZE };
  let page = plants.readPage(user, { ...query, after: START });
  await write(output, `[${page.plants}`);
  while (page.hasMore) {
    page = plants.readPage(user, { ...query, after: page.last });
    await write(output, `,${page.plants}`);
  }
  await write(output, ']\n');
}

type Source = { plants: ReturnType<typeof VIEWS.plantsByUser.open>; log: EventLog; output: Writable };

async function writeTable(user: string, { plants, log, output }: Source): Promise<void> {
  const row = (id: string, time: string, plant: string): string =>
    printable(`${id.padStart(20)}  ${time.padEnd(24)}  ${plant}`);
  await write(output, `${row('id', 'time', 'plant')}\n`);
  const query = { upTo: plants.applied.position, limit: 1 };
  for (let after = START; ; ) {
    const { plants: plant, count, last } = plants.readPage(user, { ...query, after });
    const event = count > 0 ? await log.readEvent(last) : undefined;
    if (!event) return;
    const { time = '' } = toCloudEvent(event, { source: '' });
    await write(output, `${row(parsePlantStream(event.stream)?.id ?? '', time, plant)}\n`);
    after = last;
  }
}

function parsePointInTime(text: string): PointInTime {
  if (/^\d+$/.test(text)) return { position: parsePosition(text, '--at') };
  const time = parseRfc3339(text);
  if (time === undefined)
    throw new Error('--at must be a log position, or an RFC 3339 time such as 2026-03-01T12:00:00Z.');
  return { time };
}

function isBy(event: RecordedEvent, { position, time }: PointInTime): boolean {
  if (position !== undefined) return event.position <= position;
  if (time === undefined) return true;
  const at = occurredAt(event);
  return at !== undefined && at <= time;
}
