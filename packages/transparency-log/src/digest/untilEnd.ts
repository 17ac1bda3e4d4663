/** The last line of a replay with `end`; no event begins like it. */
const END = /^\{"end":"\d+"\}$/;

/**
 * The lines of a replay with `end`, without the last one. HTTP alone does not show the end: a proxy may relay a response that
 * has broken off as complete. @throws Error if the last line is missing
 */
export async function* untilEnd(lines: AsyncIterable<string>): AsyncGenerator<string> {
  for await (const line of lines) {
    if (END.test(line)) return;
    yield line;
  }
  throw new Error('the response has broken off: its last line, {"end":"POSITION"}, is missing');
}
