import { promisify } from 'node:util';
import { brotliCompress, gzip } from 'node:zlib';
import type { FastifyReply, FastifyRequest } from 'fastify';
import Negotiator from 'negotiator';

/** The encodings of a response, the smallest first. Their absence is the identity. */
type Encoding = 'br' | 'gzip';
/** Text without an encoding, and with each one that makes it smaller. */
export type EncodedContent = { identity: Buffer } & Partial<Record<Encoding, Buffer>>;

const compressors = { br: promisify(brotliCompress), gzip: promisify(gzip) };
export const isText = (type: string): boolean => /^text\/|json|xml|javascript/.test(type);

/** Compresses content once, for all responses. */
export async function encodeContent(identity: Buffer, type: string): Promise<EncodedContent> {
  if (!isText(type)) return { identity };
  const [br, gzip] = await Promise.all([compressors.br(identity), compressors.gzip(identity)]);
  return br.length < identity.length && gzip.length < identity.length ? { identity, br, gzip } : { identity };
}

/** The first of the encodings that the client accepts. */
export function acceptedEncoding(
  { headers }: FastifyRequest,
  encodings: readonly Encoding[],
): Encoding | undefined {
  if (headers['accept-encoding'] === undefined) return undefined;
  const accepted = new Negotiator({ headers }).encodings([...encodings]);
  return encodings.find((encoding) => accepted.includes(encoding));
}

/** Adds the headers of a response that depends on Accept-Encoding. */
export function setEncoding(reply: FastifyReply, encoding: Encoding | undefined): void {
  const vary = reply.getHeader('vary');
  reply.header('vary', vary === undefined ? 'Accept-Encoding' : `${vary}, Accept-Encoding`);
  if (encoding !== undefined) reply.header('content-encoding', encoding);
}

/** The content in the smallest encoding that the client accepts, with its headers. */
export function chooseContent(request: FastifyRequest, reply: FastifyReply, content: EncodedContent): Buffer {
  const encoding = content.br && acceptedEncoding(request, ['br', 'gzip']);
  if (content.br) setEncoding(reply, encoding);
  return (encoding && content[encoding]) ?? content.identity;
}
