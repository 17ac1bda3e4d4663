import { expect } from 'vitest';

export const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[1-8][0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;

type FieldError = { field: string; message: string };

/** Checks the format of an error response: body, number of its status, headers; returns the body. */
export async function refusalIn(
  response: Response,
): Promise<{ error: number; message: string; details?: FieldError[] }> {
  const text = await response.text();
  const { details, ...body } = JSON.parse(text);
  expect(body, text).toEqual({ error: expect.any(Number), message: expect.stringMatching(/./) });
  expect(details !== undefined, text).toBe([40002, 40004].includes(body.error));
  if (details) expectFieldErrors(details);
  expect(Math.floor(body.error / 100)).toBe(response.status);
  expect(response.headers.get('content-type')).toBe('application/json; charset=utf-8');
  expect(response.headers.get('cache-control')).toBe('no-store');
  expect(response.headers.get('request-id')).toMatch(UUID);
  return { ...body, ...(details && { details }) };
}

/** One to eight fields, each once, with a short, well-formed name. */
function expectFieldErrors(details: FieldError[]): void {
  const fields = details.map(({ field }) => field);
  expect([1, 2, 3, 4, 5, 6, 7, 8]).toContain(new Set(fields).size);
  expect(details).toHaveLength(new Set(fields).size);
  for (const detail of details) {
    expect(detail).toEqual({ field: expect.any(String), message: expect.stringMatching(/^\S.*[^.]$/s) });
    expect([detail.field.length <= 64, detail.field.isWellFormed()]).toEqual([true, true]);
  }
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
