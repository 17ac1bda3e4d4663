import { rowOf } from '../../projections/plantsByUser.ts';
import { occurredAt } from '../audit/cloudEvent.ts';
import { UnknownUser } from '../audit/replay.ts';
import { type Position, type RecordedEvent, START } from '../eventStore/eventStore.ts';
import { mustBeReached, readPosition } from '../eventStore/position.ts';
import { readLog } from '../eventStore/readLog.ts';
import { plantOfStream } from '../plants/plant.ts';
import { timeOf } from '../time.ts';
import { isUser } from '../user.ts';
import { openLogUntil, type Surroundings, write } from './surroundings.ts';

type Options = { user: string; at?: string };

/** A point in the past: a position of the log, or a time by the events' own account, in milliseconds since 1970. */
type Point = { position?: Position; time?: number };

/** Prints a user's plants as GET /plants would have answered then: the fold of the log up to that point. */
export async function plantsCommand({ user, at }: Options, surroundings: Surroundings): Promise<void> {
  const { config, output, signal } = surroundings;
  if (!isUser(user)) throw new Error('--user must be the name of a user.');
  const then = at === undefined ? {} : pointOf(at);
  await using open = new AsyncDisposableStack();
  const log = await openLogUntil(open, surroundings);
  mustBeReached(then.position ?? START, await log.end(), '--at');
  let isKnown = false;
  let before = '[';
  for await (const { events } of readLog(log, { after: START, signal })) {
    const own = events.filter(({ stream }) => plantOfStream(stream)?.user === user);
    isKnown ||= own.length > 0;
    const rows = own.filter((event) => isBy(event, then)).map((event) => rowOf(event, config.skipEvents));
    const plants = rows.flatMap((row) => (row ? [row.plant] : [])).join(',');
    if (plants !== '') {
      await write(output, `${before}${plants}`);
      before = ',';
    }
    if (isKnown && then.position !== undefined && (events.at(-1)?.position ?? START) >= then.position) break;
  }
  signal.throwIfAborted();
  if (!isKnown) throw new UnknownUser(user);
  await write(output, before === '[' ? '[]\n' : ']\n');
}

function pointOf(text: string): Point {
  if (/^\d+$/.test(text)) return { position: readPosition(text, '--at') };
  const time = timeOf(text);
  if (time === undefined)
    throw new Error('--at must be a position, or a time of RFC 3339 such as 2026-03-01T12:00:00Z.');
  return { time };
}

function isBy(event: RecordedEvent, { position, time }: Point): boolean {
  if (position !== undefined) return event.position <= position;
  if (time === undefined) return true;
  const at = occurredAt(event);
  return at !== undefined && at <= time;
}
