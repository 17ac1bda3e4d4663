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

/** What Node reports for a certificate of an authority that it does not know. */
const UNKNOWN_AUTHORITY =
  /^(DEPTH_ZERO_SELF_SIGNED_CERT|SELF_SIGNED_CERT_IN_CHAIN|UNABLE_TO_(VERIFY_LEAF_SIGNATURE|GET_ISSUER_CERT(_LOCALLY)?))$/;

/** Why `fetch` or reading its response failed, for messages. */
export function failureReason(error: unknown): string {
  const { message, cause } = error as Error & { cause?: NodeJS.ErrnoException };
  const reason = cause?.code ?? cause?.message ?? message;
  if (!UNKNOWN_AUTHORITY.test(reason)) return reason;
  return `${reason}; for a private certificate authority, set NODE_EXTRA_CA_CERTS to a file with its certificate`;
}
