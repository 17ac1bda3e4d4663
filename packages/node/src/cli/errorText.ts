import { printable } from './printable.ts';

const FAULTS = [EvalError, RangeError, ReferenceError, SyntaxError, TypeError];

/** Whether an error is a fault of the code, such as a TypeError, and not meant for the user of a command. */
export const isFault = (error: unknown): boolean => FAULTS.some((type) => error instanceof type);

/** What to print of an error that ends a command: its message, or the stack of a fault of the code. */
export function errorText(error: Error): string {
  const { message, stack = message } = error;
  return (isFault(error) ? stack : message).split('\n').map(printable).join('\n');
}
