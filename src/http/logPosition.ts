import type { Position } from '../eventStore/eventStore.ts';
import { BadPosition, readPosition } from '../eventStore/position.ts';

// Positions as clients see them, in `Log-Position` and `after`: opaque, and bound to their log by its mark.

export function formatPosition(mark: string, position: Position): string {
  return `${mark}.${position}`;
}

/** @throws BadPosition when the text is garbage or belongs to another log; `name` says where it stood. */
export function parsePosition(mark: string, text: string, name: string): Position {
  const [, of, digits = ''] = /^([^.]*)\.(\d+)$/.exec(text) ?? [];
  const position = readPosition(digits, name);
  if (of !== mark) throw new BadPosition(`${name} is a position of another log.`);
  return position;
}
