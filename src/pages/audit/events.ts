import { parsePlantStream } from '../../plants/stream.ts';
import type { Api } from './api.ts';

/** An event as it is shown; `json` is its CloudEvent as received, of which nothing is lost. */
export type ShownEvent = {
  position: bigint;
  json: string;
  type: string;
  /** When it occurred, in milliseconds since 1970; NaN if it does not say. */
  time: number;
  /** The user and the plant's ID, if its stream is that of a plant. */
  plant: { user: string; id: string } | undefined;
  name: string | undefined;
  tag: string | undefined;
  /** Its stream and revision. */
  subject: string;
  revision: string;
};

/** Parses a CloudEvent of the service. */
export function parseEvent(json: string): ShownEvent {
  const { position, type, time, subject, revision, data } = JSON.parse(json);
  return {
    position: BigInt(position),
    json,
    type,
    time: typeof time === 'string' ? Date.parse(time.replace(':60', ':59')) : Number.NaN,
    plant: parsePlantStream(subject),
    name: textOf(data?.name),
    tag: textOf(data?.tag),
    subject,
    revision,
  };
}

const textOf = (value: unknown): string | undefined => (typeof value === 'string' ? value : undefined);

const NDJSON = 'application/x-ndjson';

/** A page of events, and the path of the next one. */
export type Page = { events: ShownEvent[]; next: string | undefined };

/** Reads events that match a query, newest first. @throws ApiError */
export async function readPage(api: Api, query: URLSearchParams, signal: AbortSignal): Promise<Page> {
  const response = await api.get(`events?${query}`, { accept: NDJSON, signal });
  const lines = (await response.text()).split('\n').filter((line) => line !== '');
  return { events: lines.map(parseEvent), next: nextOf(response.headers.get('link')) };
}

/** The query of the next page (RFC 8288). */
function nextOf(link: string | null): string | undefined {
  const [, url] = /<([^>]*)>;\s*rel="next"/.exec(link ?? '') ?? [];
  return url === undefined ? undefined : new URL(url, location.href).search.slice(1);
}

/** Reads all events that match a query, oldest first, one by one. @throws ApiError */
export async function* readEvents(
  api: Api,
  query: URLSearchParams,
  signal: AbortSignal,
): AsyncGenerator<ShownEvent> {
  const response = await api.get(`events?${query}`, { accept: NDJSON, signal });
  for await (const line of linesOf(response)) yield parseEvent(line);
}

/** All events that match a query, oldest first, as a file. @throws ApiError */
export async function download(api: Api, query: URLSearchParams): Promise<Blob> {
  return (await api.get(`events?${query}`, { accept: NDJSON })).blob();
}

/** The lines of a response, without their ends. A last line that does not end is left out. */
export async function* linesOf({ body }: Response): AsyncGenerator<string> {
  let rest = '';
  const reader = (body as ReadableStream<BufferSource>).pipeThrough(new TextDecoderStream()).getReader();
  try {
    for (let read = await reader.read(); !read.done; read = await reader.read()) {
      const lines = (rest + read.value).split('\n');
      rest = lines.pop() as string;
      yield* lines;
    }
  } finally {
    await reader.cancel().catch(() => {});
  }
}
