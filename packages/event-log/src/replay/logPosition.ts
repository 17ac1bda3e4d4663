import { NO_LOG_ID, type Position, START } from '../eventStore.ts';
import { BadPosition, parsePosition } from '../position.ts';

// Positions as clients know them, in `Log-Position` and `after`: opaque, and with the ID of their log.

/** The position before the first event is the same in every log, and the only one of a log without an ID. */
const START_OF_ANY_LOG = '0';

export function formatLogPosition(logId: string, position: Position): string {
  return logId === NO_LOG_ID ? START_OF_ANY_LOG : `${logId}.${position}`;
}

/** `name` names the input in messages. @throws BadPosition if it is malformed, or of another log */
export function parseLogPosition(logId: string, text: string, name: string): Position {
  if (text === START_OF_ANY_LOG) return START;
  const [, ofLog, digits = ''] = /^([^.]*)\.(\d+)$/.exec(text) ?? [];
  const position = parsePosition(digits, name);
  if (ofLog !== logId) throw new BadPosition(`${name} is a position of another log.`);
  return position;
}
