import { EVENTS_ERASED, parseRecord } from '@event-sourced/event-log/erasure';
import { untilEnd } from '@event-sourced/transparency-log/digest';
import type { BarCounts } from '../src/histogram/bars.ts';
import type { Api } from './api.ts';
import { counted, parseTime } from './text.ts';

const NDJSON = 'application/x-ndjson';
/** Not less than the last line of a replay. */
const END_BYTES = 64;

/** An event to show; `json` is its CloudEvent, exactly as received. */
export type ShownEvent = {
  position: bigint;
  json: string;
  type: string;
  /** When the event occurred, in milliseconds since 1970; NaN if it has no time. */
  time: number;
  subject: string;
  revision: bigint;
  data: Record<string, unknown> | null | undefined;
  /** The entry, if the event is erased. */
  erased: string | undefined;
  /** Whether it arrived live. */
  isNew?: boolean;
};

/** The indices that a record of an erasure names; undefined for other events. */
export const namesOf = ({ type, data }: Pick<ShownEvent, 'type' | 'data'>): readonly number[] | undefined =>
  type === EVENTS_ERASED ? parseRecord(data) : undefined;

/** What an erased event, or the record of an erasure, is. */
export function describeErasure(event: ShownEvent): string | undefined {
  if (event.erased !== undefined) return 'erased; only its digest remains';
  const names = namesOf(event);
  return names && `${counted(names.length, 'event')} erased`;
}

export function parseEvent(json: string): ShownEvent {
  const { position, type, time, subject, revision, data, erased } = JSON.parse(json);
  return {
    position: BigInt(position),
    json,
    type,
    time: parseTime(time),
    subject,
    revision: BigInt(revision),
    data,
    erased,
  };
}

/** A page of events, newest first; the query of the next page; and the last position of the log when it was read. */
export type EventPage = { events: ShownEvent[]; next: string | undefined; end: bigint };

/** Reads a page. Its Link names the next page (RFC 8288), its Log-Position the last event. @throws ApiError */
export async function readPage(
  api: Api,
  query: URLSearchParams | string,
  signal: AbortSignal,
): Promise<EventPage> {
  const response = await api.get(`events?${query}`, NDJSON, { signal });
  const lines = (await response.text()).split('\n').filter((line) => line !== '');
  const [, url] = /<([^>]*)>;\s*rel="next"/.exec(response.headers.get('link') ?? '') ?? [];
  const next = url === undefined ? undefined : new URL(url, location.href).search.slice(1);
  const end = BigInt(response.headers.get('log-position')?.split('.').at(-1) || 0);
  return { events: lines.map(parseEvent), next, end };
}

/** The counts of events, and the position up to which the log was searched. */
type Histogram = BarCounts & { events: number; end: string; before?: string };

/** Counts events over time. @throws ApiError */
export async function readHistogram(
  api: Api,
  query: URLSearchParams | string,
  signal: AbortSignal,
): Promise<Histogram> {
  const response = await api.get(`events/histogram?${query}`, 'application/json', { signal });
  return response.json() as Promise<Histogram>;
}

/** The lines of a whole replay. @throws ApiError; Error if it breaks off */
export async function* replayLines(
  api: Api,
  query: Record<string, string>,
  signal: AbortSignal,
): AsyncGenerator<string> {
  const path = `events?${new URLSearchParams({ ...query, end: 'true' })}`;
  yield* untilEnd(readLines(await api.get(path, NDJSON, { signal })));
}

/** A whole replay as a file, with its last line. @throws ApiError; Error if it breaks off */
export async function replayFile(api: Api, query: URLSearchParams): Promise<Blob> {
  query.set('end', 'true');
  const file = await (await api.get(`events?${query}`, NDJSON)).blob();
  await Array.fromAsync(untilEnd(readLines(new Response(file.slice(-END_BYTES)))));
  return file;
}

/** The lines of a response, without line ends. Omits an incomplete last line. */
export async function* readLines({ body }: Response, onBytes = () => {}): AsyncGenerator<string> {
  let rest = '';
  // Safari 18 has no asynchronous iterator of streams.
  const reader = (body as ReadableStream<BufferSource>).pipeThrough(new TextDecoderStream()).getReader();
  try {
    for (let read = await reader.read(); !read.done; read = await reader.read()) {
      onBytes();
      const lines = (rest + read.value).split('\n');
      rest = lines.pop() as string;
      yield* lines;
    }
  } finally {
    await reader.cancel().catch(() => {});
  }
}
