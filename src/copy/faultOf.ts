import type { RecordedEvent } from '../eventStore/eventStore.ts';
import { UUID } from '../newId.ts';
import { PLANT_STREAMS } from '../plants/plant.ts';

/** What keeps an event from being the same in every store, to be read after its name; undefined where nothing does. */
export function faultOf({ stream, id, type, data, metadata }: RecordedEvent): string | undefined {
  if (!stream.startsWith(PLANT_STREAMS))
    return `its stream ${JSON.stringify(stream)} is none of a plant, and would not be followed in EventStoreDB`;
  if (!UUID.test(id)) return 'its id is no UUID in lower case';
  if (type === '') return 'it has no type';
  for (const [name, value] of Object.entries({ data, metadata })) {
    const fault = jsonFault(value);
    if (fault !== undefined) return `its ${name} ${fault}`;
  }
  return undefined;
}

/** Stores give text that is no JSON as text, bytes as bytes, and nothing where there is nothing. */
function jsonFault(value: unknown): string | undefined {
  if (Object.prototype.toString.call(value) !== '[object Object]') return 'is no JSON object';
  let fault: string | undefined;
  try {
    JSON.stringify(value, (_, part) => {
      if (typeof part === 'number' && !isExact(part)) fault = 'holds a number that may have lost digits';
      return part;
    });
  } catch {
    return 'is nested too deep';
  }
  return fault;
}

/** Whether a number is certainly the one that was written. */
function isExact(number: number): boolean {
  if (Number.isInteger(number)) return Number.isSafeInteger(number) && !Object.is(number, -0);
  return Number.isFinite(number);
}
