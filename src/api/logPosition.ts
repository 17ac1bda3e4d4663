import type { View } from '../../projections/view.ts';
import { type EventStore, NO_LOG_ID, type Position, START } from '../eventStore/eventStore.ts';
import { BadPosition, parsePosition } from '../eventStore/position.ts';

// Positions as clients know them, in `Log-Position` and `after`: opaque, and with the ID of their log.

/** The position before the first event is the same in every log, and the only one of a log without an ID. */
const START_OF_ANY_LOG = '0';

export function formatLogPosition(logId: string, position: Position): string {
  return logId === NO_LOG_ID ? START_OF_ANY_LOG : `${logId}.${position}`;
}

/**
 * The log that a view belongs to. While the view has no event it belongs to none, but a client that names a
 * position may have it from another instance: then it is the log of the store.
 */
export async function logIdOf(view: View, store: EventStore, namesPosition: boolean): Promise<string> {
  return view.applied.logId || (namesPosition ? await store.logId() : NO_LOG_ID);
}

/** `name` names the input in messages. @throws BadPosition if it is malformed, or of another log */
export function parseLogPosition(logId: string, text: string, name: string): Position {
  if (text === START_OF_ANY_LOG) return START;
  const [, ofLog, digits = ''] = /^([^.]*)\.(\d+)$/.exec(text) ?? [];
  const position = parsePosition(digits, name);
  if (ofLog !== logId) throw new BadPosition(`${name} is a position of another log.`);
  return position;
}
