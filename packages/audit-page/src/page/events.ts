import type { Api } from './api.ts';

/** An event as it is shown; `json` is its CloudEvent as received, of which nothing is lost. */
export type ShownEvent = {
  position: bigint;
  json: string;
  type: string;
  /** When it occurred, in milliseconds since 1970; NaN if it does not say. */
  time: number;
  /** Its stream. */
  subject: string;
  revision: bigint;
  data: Record<string, unknown> | null | undefined;
};

/** Parses a CloudEvent of the service. */
export function parseEvent(json: string): ShownEvent {
  const { position, type, time, subject, revision, data } = JSON.parse(json);
  return {
    position: BigInt(position),
    json,
    type,
    time: typeof time === 'string' ? Date.parse(time.replace(':60', ':59')) : Number.NaN,
    subject,
    revision: BigInt(revision),
    data,
  };
}

export const textOf = (value: unknown): string | undefined => (typeof value === 'string' ? value : undefined);

/** All events that match a query, as NDJSON; with order=descending a page of them. @throws ApiError */
export function getEvents(api: Api, query: URLSearchParams, signal?: AbortSignal): Promise<Response> {
  return api.get(`events?${query}`, { accept: 'application/x-ndjson', signal });
}

/** A page of events, newest first, and the query of the next one (RFC 8288). @throws ApiError */
export async function readPage(
  api: Api,
  query: URLSearchParams,
  signal: AbortSignal,
): Promise<{ events: ShownEvent[]; next: string | undefined }> {
  const response = await getEvents(api, query, signal);
  const lines = (await response.text()).split('\n').filter((line) => line !== '');
  const [, url] = /<([^>]*)>;\s*rel="next"/.exec(response.headers.get('link') ?? '') ?? [];
  const next = url === undefined ? undefined : new URL(url, location.href).search.slice(1);
  return { events: lines.map(parseEvent), next };
}

/** Reads all events that match a query, oldest first, one by one. @throws ApiError */
export async function* readEvents(
  api: Api,
  query: URLSearchParams,
  signal: AbortSignal,
): AsyncGenerator<ShownEvent> {
  for await (const line of linesOf(await getEvents(api, query, signal))) yield parseEvent(line);
}

/** The lines of a response, without their ends. A last line that does not end is left out. */
export async function* linesOf({ body }: Response): AsyncGenerator<string> {
  let rest = '';
  // Safari 18 has no asynchronous iterator of streams.
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
