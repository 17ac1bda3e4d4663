/** Reads all bytes of a stream; undefined if there are more than `maxBytes`. */
export async function readAtMost(
  maxBytes: number,
  body: AsyncIterable<Uint8Array> | null,
): Promise<Buffer | undefined> {
  let bytes = Buffer.alloc(0); // a single buffer, since many small chunks take more memory
  let length = 0;
  for await (const chunk of body ?? []) {
    const end = length + chunk.length;
    if (end > maxBytes) return undefined;
    if (end > bytes.length) bytes = Buffer.concat([bytes], Math.min(2 * end, maxBytes));
    bytes.set(chunk, length);
    length = end;
  }
  return bytes.subarray(0, length);
}

/** Why `fetch` or reading its response failed, for messages. */
export function failureReason(error: unknown): string {
  const { message, cause } = error as Error & { cause?: NodeJS.ErrnoException };
  return cause?.code ?? cause?.message ?? message;
}
