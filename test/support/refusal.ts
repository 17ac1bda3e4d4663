import { expect } from 'vitest';

export const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[1-8][0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;

/** What every refusal has, whatever it refuses: the one shape, a number that fits its status, a name, no-store. */
export async function refusalIn(answer: Response): Promise<{ error: number; message: string }> {
  const text = await answer.text();
  const body = JSON.parse(text);
  expect(body, text).toEqual({ error: expect.any(Number), message: expect.stringMatching(/./) });
  expect(Math.floor(body.error / 100)).toBe(answer.status);
  expect(answer.headers.get('content-type')).toBe('application/json; charset=utf-8');
  expect(answer.headers.get('cache-control')).toBe('no-store');
  expect(answer.headers.get('request-id')).toMatch(UUID);
  return body;
}

/** Refused with this number; gives the message. */
export async function refusedWith(number: number, answer: Response): Promise<string> {
  const { error, message } = await refusalIn(answer);
  expect({ error, message }).toEqual({ error: number, message });
  return message;
}
