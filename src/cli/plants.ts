import {
  assertInLog,
  type Position,
  parsePosition,
  type RecordedEvent,
  readToEnd,
  START,
} from '@event-sourced/event-log';
import { occurredAt, UnknownUser } from '@event-sourced/event-log/replay';
import { parseRfc3339 } from '@event-sourced/event-log/time';
import { UnsavedRows } from '@event-sourced/event-log/views';
import { foldPlants, isUser, PLANTS_BY_USER, type PlantRow, parsePlantStream, USER_RULE } from '../domain.ts';
import { type Context, useLog, write } from './context.ts';

type Options = { user: string; at?: string };

/** A position of the log, or a time, in milliseconds since 1970. */
type PointInTime = { position?: Position; time?: number };

/** Prints a user's plants as GET /plants would have listed them at a point in time. */
export async function plantsCommand({ user, at }: Options, context: Context): Promise<void> {
  const { config, output, signal } = context;
  if (!isUser(user)) throw new Error(`--user must be ${USER_RULE}.`);
  const point = at === undefined ? {} : parsePointInTime(at);
  await using resources = new AsyncDisposableStack();
  const log = await useLog(resources, context);
  assertInLog(point.position ?? START, await log.lastPosition(), '--at');
  const plants = new UnsavedRows<PlantRow>(PLANTS_BY_USER);
  let isKnown = false;
  for await (const { events } of readToEnd(log, { signal })) {
    for (const event of events) {
      if (parsePlantStream(event.stream)?.user !== user) continue;
      isKnown = true;
      if (isBy(event, point) && !config.skipEvents.has(event.id)) foldPlants(event, plants);
    }
    if (isKnown && point.position !== undefined && (events.at(-1)?.position ?? START) >= point.position)
      break;
  }
  signal.throwIfAborted();
  if (!isKnown) throw new UnknownUser(user);
  let separator = '[';
  for (const { row } of plants.after([user, START])) {
    if (!row) continue;
    await write(output, `${separator}${row[2]}`);
    separator = ',';
  }
  await write(output, separator === '[' ? '[]\n' : ']\n');
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
