/** Another program may have written an event of 15 MiB, which JSON escapes. */
const MAX_LINE_BYTES = 64 * 1024 * 1024;

/** The lines of a body in UTF-8, each of which ends with a line feed. @throws Error */
export async function* readLines(body: AsyncIterable<Uint8Array> | null): AsyncGenerator<string> {
  let pieces: Uint8Array[] = [];
  let length = 0;
  for await (const chunk of body ?? []) {
    let start = 0;
    for (let end = chunk.indexOf(0x0a); end !== -1; end = chunk.indexOf(0x0a, start)) {
      yield Buffer.concat([...pieces, chunk.subarray(start, end)]).toString();
      [pieces, length, start] = [[], 0, end + 1];
    }
    pieces.push(chunk.subarray(start));
    length += chunk.length - start;
    if (length > MAX_LINE_BYTES) throw new Error(`a line is longer than ${MAX_LINE_BYTES} bytes`);
  }
  if (length > 0) throw new Error('the response ends within a line');
}
