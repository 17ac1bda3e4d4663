import type { Position } from '../eventStore/eventStore.ts';

// Positions as clients see them, in `Log-Position` and `after`: opaque, and bound to their log by its mark.

/** Positions have 64 bits, with a sign. */
const LAST = 2n ** 63n - 1n;

/** Not a position of this log: garbage, or a position of another one. */
export class BadPosition extends Error {
  override readonly name = 'BadPosition';
}

export function formatPosition(mark: string, position: Position): string {
  return `${mark}.${position}`;
}

/** @throws BadPosition when the text is garbage or belongs to another log; `name` says where it stood. */
export function parsePosition(mark: string, text: string, name: string): Position {
  const [, of, digits] = /^([^.]*)\.(0|[1-9]\d{0,18})$/.exec(text) ?? [];
  const position = BigInt(digits ?? -1);
  if (position < 0n || position > LAST) throw new BadPosition(`${name} is not a log position.`);
  if (of !== mark) throw new BadPosition(`${name} is a position of another log.`);
  return position;
}
