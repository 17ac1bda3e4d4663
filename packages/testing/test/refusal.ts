import { expect } from 'vitest';

export const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[1-8][0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;

/** Checks the format of an error response: body, number of its status, headers; returns the body. */
export async function refusalIn(response: Response): Promise<{ error: number; message: string }> {
  const text = await response.text();
  const body = JSON.parse(text);
  expect(body, text).toEqual({ error: expect.any(Number), message: expect.stringMatching(/./) });
  expect(Math.floor(body.error / 100)).toBe(response.status);
  expect(response.headers.get('content-type')).toBe('application/json; charset=utf-8');
  expect(response.headers.get('cache-control')).toBe('no-store');
  expect(response.headers.get('request-id')).toMatch(UUID);
  return body;
}

/** The status and the headers of a response, except headers that differ between responses. */
export function fixedParts({ status, headers }: Response, ...changing: string[]) {
  changing.push('date', 'request-id', 'connection', 'keep-alive', 'transfer-encoding');
  return { status, headers: [...headers].filter(([name]) => !changing.includes(name)) };
}

/** Expects an error response with this number; returns the message. */
export async function refusedWith(number: number, response: Response): Promise<string> {
  const { error, message } = await refusalIn(response);
  expect({ error, message }).toEqual({ error: number, message });
  return message;
}
