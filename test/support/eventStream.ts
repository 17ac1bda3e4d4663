import { once } from 'node:events';
import { type Agent, type IncomingMessage, request } from 'node:http';
import { join } from 'node:path';
import { EventSource } from 'eventsource';
import { onTestFinished } from 'vitest';
import { issueToken } from '../../src/tokens/issueToken.ts';
import { loadOrCreateKey } from '../../src/tokens/keyFile.ts';

/** A message of an event stream as its reader has it. */
export type Message = { id: string; data: string };

type Asking = {
  token: string;
  /** With its question mark. */
  query?: string;
  headers?: Record<string, string>;
};

/** A token of carol, who may read everybody's events, by the key in a data directory. */
export function auditorToken(dir: string, expires = '1h'): Promise<string> {
  const { privateKey } = loadOrCreateKey(join(dir, 'key.json'));
  return issueToken(privateKey, { user: 'carol', scope: 'audit', expires });
}

/** Newline-delimited events, line by line. */
export async function linesOf(url: string, { token, query = '', headers = {} }: Asking): Promise<string[]> {
  const authorization = `Bearer ${token}`;
  const answer = await fetch(`${url}/events${query}`, { headers: { ...headers, authorization } });
  const text = await answer.text();
  if (answer.status !== 200) throw new Error(`${answer.status}: ${text}`);
  return text.split('\n').slice(0, -1);
}

/** An EventSource, and what it has been told until now. */
export function listen(url: string, { token, query = '', headers = {} }: Asking) {
  const authorization = `Bearer ${token}`;
  const source = new EventSource(`${url}/events${query}`, {
    fetch: (to, init) => fetch(to, { ...init, headers: { ...init.headers, ...headers, authorization } }),
  });
  onTestFinished(() => source.close());
  const messages: Message[] = [];
  const failures: (number | undefined)[] = [];
  source.onmessage = ({ lastEventId, data }) => void messages.push({ id: lastEventId, data });
  source.onerror = ({ code }) => void failures.push(code);

  /** Rejects when the client has given up before. */
  async function happens(is: () => boolean): Promise<void> {
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
    /** What it has met with: the status of a refusal, undefined where the connection ended. */
    failures,
    opened: happens(() => source.readyState === source.OPEN),
    /** The messages, once there are so many. */
    async first(count: number): Promise<Message[]> {
      await happens(() => messages.length >= count);
      return messages.slice(0, count);
    },
    failed: (times: number) => happens(() => failures.length >= times),
  };
}

/** An answer byte by byte, on a connection of its own or of an agent; nobody reads it before `read` is called. */
export async function answerOf(
  url: string,
  {
    token,
    query = '',
    headers = {},
    method = 'GET',
    agent = false,
  }: Asking & { method?: string; agent?: Agent | false },
) {
  const asking = request(`${url}/events${query}`, {
    method,
    agent,
    headers: { accept: 'text/event-stream', ...headers, authorization: `Bearer ${token}` },
  });
  asking.on('error', () => {}); // whoever waits for the answer is told
  onTestFinished(() => void asking.destroy());
  const answered = once(asking, 'response') as Promise<[IncomingMessage]>;
  asking.end();
  const [response] = await answered;
  response.on('error', () => {}); // a reset is a way to end
  let text = '';
  /** Whether it came to its proper end. */
  const ended = new Promise<boolean>((resolve) => response.once('close', () => resolve(response.complete)));
  return {
    response,
    ended,
    text: () => text,
    read: () => void response.setEncoding('utf8').on('data', (piece: string) => (text += piece)),
    /** What has come, once it fits. */
    async received(pattern: RegExp): Promise<string> {
      while (!pattern.test(text)) {
        if (response.closed) throw new Error(`ended without ${pattern}: ${text}`);
        const over = new AbortController();
        await Promise.race(['data', 'close'].map((name) => once(response, name, over)));
        over.abort();
      }
      return text;
    },
    leave: () => void asking.destroy(),
  };
}

export type Answer = Awaited<ReturnType<typeof answerOf>>;

/** The messages in the text of a stream, without what is only begun. */
export function messagesIn(text: string): Message[] {
  return [...text.matchAll(/^id: (.+)\ndata: (.+)\n\n/gm)].map(([, id = '', data = '']) => ({ id, data }));
}
