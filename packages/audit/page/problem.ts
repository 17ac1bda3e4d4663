import { ApiError, errorMessage } from './api.ts';

/** Why something could not be shown; `field`: the filter that caused it. `isRefused`: repeating it does not help. */
export type Problem = { message: string; field: string | undefined; isRefused: boolean };

/** A message about a field starts with the name of the field. */
const FIELD = /^(?:The log has no event of the )?(user|id|type|since|until|at)\b/i;

export function toProblem(error: unknown): Problem {
  const message = errorMessage(error);
  const isRefused = error instanceof RangeError || (error instanceof ApiError && error.status < 500);
  return { message, field: FIELD.exec(message)?.[1]?.toLowerCase(), isRefused };
}
