import { NO_LOG_ID, type Position, START } from '../eventStore.ts';
import { BadPosition, parsePosition } from '../position.ts';

// Positions as clients see them, in `Log-Position` and `after`: opaque, with the ID of their log.

/** The position before the first event is the same in every log. A log without an ID has no other position. */
const START_OF_ANY_LOG = '0';

export function formatLogPosition(logId: string, position: Position): string {
  return logId === NO_LOG_ID ? START_OF_ANY_LOG : `${logId}.${position}`;
}

/** `name` names the input in messages. @throws BadPosition if the position is malformed, or belongs to another log */
export function parseLogPosition(logId: string, text: string, name: string): Position {
  if (text === START_OF_ANY_LOG) return START;
  const [, textLogId, digits = ''] = /^([^.]*)\.(\d+)$/.exec(text) ?? [];
  const position = parsePosition(digits, name);
  if (textLogId !== logId) throw new BadPosition(`${name} is a position of another log.`);
  return position;
}
