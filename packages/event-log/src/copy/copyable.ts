import { UUID } from '../eventId.ts';
import type { RecordedEvent } from '../eventStore.ts';

/** Why some store would change an event, to follow its position in a message; undefined if every store preserves it. */
export function copyProblem(
  { stream, id, type, data, metadata }: RecordedEvent,
  prefix = '',
): string | undefined {
  if (!stream.startsWith(prefix))
    return `its stream ${JSON.stringify(stream)} does not start with ${prefix}; subscriptions to EventStoreDB would not deliver it`;
  if (!UUID.test(id)) return 'its ID is not a UUID in lower case';
  if (type === '') return 'it has no type';
  for (const [name, value] of Object.entries({ data, metadata })) {
    const problem = jsonProblem(value);
    if (problem !== undefined) return `its ${name} ${problem}`;
  }
  return undefined;
}

/**
 * Stores return text that is not JSON as text, bytes as bytes, and missing data as undefined. A read of the
 * embedded log for hashing also returns JSON as text if this store would have written it differently.
 */
function jsonProblem(value: unknown): string | undefined {
  if (typeof value === 'string' && isJson(value))
    return 'is JSON in a form that the embedded log never writes; it may have been altered: run verify';
  if (Object.prototype.toString.call(value) !== '[object Object]') return 'is not a JSON object';
  let problem: string | undefined;
  try {
    JSON.stringify(value, (_, part) => {
      if (typeof part === 'number' && !isExact(part)) problem = 'has a number that may have lost digits';
      return part;
    });
  } catch {
    return 'is nested too deeply';
  }
  return problem;
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

/** Whether a number is certainly the one that was written, without lost digits. */
function isExact(number: number): boolean {
  if (Number.isInteger(number)) return Number.isSafeInteger(number) && !Object.is(number, -0);
  return Number.isFinite(number);
}
