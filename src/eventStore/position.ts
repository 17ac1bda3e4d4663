import type { Position } from './eventStore.ts';

/** Positions have 64 bits, with a sign. */
const LAST = 2n ** 63n - 1n;

/** No position of this log: garbage, a position of another log, or one beyond its end. */
export class BadPosition extends Error {
  override readonly name = 'BadPosition';
}

/** A position in plain digits. @throws BadPosition; `name` says where the text stood */
export function readPosition(text: string, name: string): Position {
  const position = /^(0|[1-9]\d{0,18})$/.test(text) ? BigInt(text) : -1n;
  if (position < 0n || position > LAST) throw new BadPosition(`${name} is not a log position.`);
  return position;
}

/** @throws BadPosition where the log, which ends at `end`, has not come to this position */
export function mustBeReached(position: Position, end: Position, name: string): void {
  if (position > end) throw new BadPosition(`${name} is beyond the end of the log, which is at ${end}.`);
}
