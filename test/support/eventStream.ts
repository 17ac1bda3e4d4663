import { once } from 'node:events';
import { type Agent, type IncomingMessage, request } from 'node:http';
import { EventSource } from 'eventsource';
import { onTestFinished } from 'vitest';
import { tokenOf } from './service.ts';

/** A message of an event stream, as received. */
export type Message = { id: string; data: string };

type EventsRequest = {
  token: string;
  /** Including the question mark. */
  query?: string;
  headers?: Record<string, string>;
};

/** A token of carol with the scope audit, signed with the key in a data directory. */
export const auditorToken = (dir: string, lifetime?: string): Promise<string> =>
  tokenOf(dir, 'carol', 'audit', lifetime);

/** The lines of an NDJSON replay. */
export async function linesOf(url: string, { token, query = '', headers = {} }: EventsRequest) {
  const authorization = `Bearer ${token}`;
  const response = await fetch(`${url}/events${query}`, { headers: { ...headers, authorization } });
  const text = await response.text();
  if (response.status !== 200) throw new Error(`${response.status}: ${text}`);
  return text.split('\n').slice(0, -1);
}

/** An EventSource, and what it has received so far. */
export function listen(url: string, { token, query = '', headers = {} }: EventsRequest) {
  const authorization = `Bearer ${token}`;
  const source = new EventSource(`${url}/events${query}`, {
    fetch: (to, init) => fetch(to, { ...init, headers: { ...init.headers, ...headers, authorization } }),
  });
  onTestFinished(() => source.close());
  const messages: Message[] = [];
  const failures: (number | undefined)[] = [];
  source.onmessage = ({ lastEventId, data }) => void messages.push({ id: lastEventId, data });
  source.onerror = ({ code }) => void failures.push(code);

  /** Rejects if the client stops reconnecting before. */
  async function becomes(is: () => boolean): Promise<void> {
    while (!is()) {
      if (source.readyState === source.CLOSED) throw new Error(`given up after ${messages.length} messages`);
      const over = new AbortController();
      await Promise.race(['open', 'message', 'error'].map((name) => once(source, name, over)));
      over.abort();
    }
  }

  return {
    source,
    messages,
    /** The failures so far: the status of an error response, or undefined if the connection ended. */
    failures,
    opened: becomes(() => source.readyState === source.OPEN),
    /** The messages, when there are `count` of them. */
    async first(count: number): Promise<Message[]> {
      await becomes(() => messages.length >= count);
      return messages.slice(0, count);
    },
    failed: (times: number) => becomes(() => failures.length >= times),
  };
}

/** A raw response, on its own connection or one of an agent; it is not read before `read` is called. */
export async function openEvents(
  url: string,
  { token, query = '', headers = {}, ...options }: EventsRequest & { method?: string; agent?: Agent | false },
) {
  const outgoing = request(`${url}/events${query}`, {
    agent: false,
    ...options,
    headers: { accept: 'text/event-stream', ...headers, authorization: `Bearer ${token}` },
  });
  outgoing.on('error', () => {}); // the awaited response rejects
  onTestFinished(() => void outgoing.destroy());
  const awaited = once(outgoing, 'response') as Promise<[IncomingMessage]>;
  outgoing.end();
  const [response] = await awaited;
  response.on('error', () => {}); // a reset ends the response, too
  let text = '';
  /** Whether the response is complete. */
  const ended = new Promise<boolean>((resolve) => response.once('close', () => resolve(response.complete)));
  return {
    response,
    ended,
    text: () => text,
    read: () => void response.setEncoding('utf8').on('data', (piece: string) => (text += piece)),
    /** The text received so far, when it matches. */
    async received(pattern: RegExp): Promise<string> {
      while (!pattern.test(text)) {
        if (response.closed) throw new Error(`ended without ${pattern}: ${text}`);
        const over = new AbortController();
        await Promise.race(['data', 'close'].map((name) => once(response, name, over)));
        over.abort();
      }
      return text;
    },
    leave: () => void outgoing.destroy(),
  };
}

/** The complete messages in the text of a stream. */
export function messagesIn(text: string): Message[] {
  return [...text.matchAll(/^id: (.+)\ndata: (.+)\n\n/gm)].map(([, id = '', data = '']) => ({ id, data }));
}
