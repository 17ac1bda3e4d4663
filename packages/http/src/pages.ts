import { hash } from 'node:crypto';
import { Readable } from 'node:stream';
import type { FastifyInstance } from 'fastify';
import fresh from 'fresh';
import { chooseContent, type EncodedContent, encodeContent } from './contentEncoding.ts';
import { HTTP_ERRORS, HttpError } from './errors.ts';

/** A file of a page; `path` is relative to the page, and empty for its HTML. */
export type PageFile = { path: string; type: string; body: string | Buffer };

type Page = {
  path: string;
  /** Called at the first request. */
  readFiles: () => readonly PageFile[] | Promise<readonly PageFile[]>;
};

/** A file in memory, which all responses share: none of them has a file open. */
type LoadedFile = { type: string; content: EncodedContent; hash: string };

/** The hash of a file. Browsers keep `PATH?HASH` for ever, and ask for `PATH` again each time. */
export const contentHash = (body: string | Buffer): string => hash('sha256', body).slice(0, 32);

/** A page only loads from its own origin, has no eval, and cannot be framed. */
const SECURITY_POLICY = [
  "default-src 'none'",
  ...['script-src', 'style-src', 'img-src', 'connect-src'].map((directive) => `${directive} 'self'`),
  ...['base-uri', 'form-action', 'frame-ancestors'].map((directive) => `${directive} 'none'`),
].join(';');

const IMMUTABLE = 'public, max-age=31536000, immutable';
/** The number of bytes sent at a time: small pieces show that a slow client reads, and keep its queue short. */
const PIECE_BYTES = 64 * 1024;

function* toPieces(content: Buffer): Generator<Buffer> {
  for (let at = 0; at < content.length; at += PIECE_BYTES) yield content.subarray(at, at + PIECE_BYTES);
}

/** Serves a page for browsers, with its Content-Security-Policy. */
export async function servePage(app: FastifyInstance, { path, readFiles }: Page): Promise<void> {
  let files: Promise<ReadonlyMap<string, LoadedFile>> | undefined;
  const load = async () => {
    const loaded = (await readFiles()).map(async ({ path, type, body }): Promise<[string, LoadedFile]> => {
      const content = await encodeContent(Buffer.from(body), type);
      return [path, { type, content, hash: contentHash(body) }];
    });
    return new Map(await Promise.all(loaded));
  };
  await app.register(async (page) => {
    page.addHook(
      'onRequest',
      async (_request, reply) => void reply.header('content-security-policy', SECURITY_POLICY),
    );
    for (const route of [path, `${path}/*`])
      page.get<{ Params: { '*'?: string } }>(route, { schema: { hide: true } }, async (request, reply) => {
        if (request.params['*'] === '') return reply.redirect(`..${path}`); // the page has relative links
        files ??= load().catch((error) => {
          files = undefined; // the next request tries again
          throw error;
        });
        const file = (await files).get(request.params['*'] ?? '');
        if (!file) throw new HttpError(HTTP_ERRORS.notFound);
        const content = chooseContent(request, reply, file.content);
        const etag = `"${file.hash}${reply.getHeader('content-encoding') ?? ''}"`; // of these bytes
        const isNamed = request.url.endsWith(`?${file.hash}`);
        reply
          .header('cache-control', isNamed ? IMMUTABLE : 'no-cache')
          .header('etag', etag)
          .type(file.type);
        // No Cache-Control: it is for caches, and `fetch` adds no-cache to a condition.
        const { 'if-none-match': condition } = request.headers;
        if (fresh({ 'if-none-match': condition }, { etag })) return reply.code(304).send();
        reply.header('content-length', content.length);
        return reply.send(Readable.from(toPieces(content), { highWaterMark: 1 }));
      });
  });
}
