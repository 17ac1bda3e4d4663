import { type Position, START } from './eventStore.ts';

/** Positions are signed 64-bit integers. */
export const MAX_POSITION = 2n ** 63n - 1n;

/** Whether an event can have this position, or reading can start after it. */
export function isPosition(position: bigint): position is Position {
  return position >= START && position <= MAX_POSITION;
}

/** A position is malformed, belongs to another log, or is beyond the end of the log. */
export class BadPosition extends Error {
  override readonly name = 'BadPosition';
}

/** Parses a position in decimal digits; `name` names the input in the message. @throws BadPosition */
export function parsePosition(text: string, name: string): Position {
  const position = /^(0|[1-9]\d{0,18})$/.test(text) ? BigInt(text) : -1n;
  if (!isPosition(position)) throw new BadPosition(`${name} is not a log position.`);
  return position;
}
