import { hash } from 'node:crypto';
import { Readable } from 'node:stream';
import helmet from '@fastify/helmet';
import type { FastifyInstance } from 'fastify';
import { HTTP_ERRORS, HttpError } from './errors.ts';

/** A file of a page; `path` is below that of the page, and empty for its HTML. */
export type PageFile = { path: string; type: string; body: string | Buffer };

type Page = {
  path: string;
  /** Called at the first request. */
  readFiles: () => readonly PageFile[] | Promise<readonly PageFile[]>;
  /** More of what the page may load, by directive of its Content-Security-Policy. */
  sources?: Record<string, readonly string[]>;
};

/** In memory: all responses share it, and none of them has a file open. */
type LoadedFile = { type: string; content: Buffer; etag: string };

/** Sent at a time, so that a slow client is seen to read, and has little queued for it. */
const PIECE_BYTES = 64 * 1024;

function* piecesOf(content: Buffer): Generator<Buffer> {
  for (let at = 0; at < content.length; at += PIECE_BYTES) yield content.subarray(at, at + PIECE_BYTES);
}

/** Serves a page for browsers, with security headers. */
export async function servePage(app: FastifyInstance, { path, readFiles, sources }: Page): Promise<void> {
  let files: Promise<ReadonlyMap<string, LoadedFile>> | undefined;
  const load = async () =>
    new Map(
      (await readFiles()).map(({ path, type, body }) => {
        const content = Buffer.from(body);
        return [path, { type, content, etag: `"${hash('sha256', content).slice(0, 32)}"` }];
      }),
    );
  await app.register(async (page) => {
    await pageHeaders(page, sources);
    for (const route of [path, `${path}/*`])
      page.get<{ Params: { '*'?: string } }>(route, { schema: { hide: true } }, async (request, reply) => {
        if (request.params['*'] === '') return reply.redirect(`..${path}`); // its links are relative
        files ??= load().catch((error) => {
          files = undefined; // the next request tries again
          throw error;
        });
        const file = (await files).get(request.params['*'] ?? '');
        if (!file) throw new HttpError(HTTP_ERRORS.notFound);
        reply.header('cache-control', 'no-cache').header('etag', file.etag).type(file.type);
        if (request.headers['if-none-match'] === file.etag) return reply.code(304).send();
        reply.header('content-length', file.content.length);
        return reply.send(Readable.from(piecesOf(file.content), { highWaterMark: 1 }));
      });
  });
}

/** Security headers: pages load from their own origin only, without inline script and eval, and unframed. */
async function pageHeaders(app: FastifyInstance, sources: Page['sources']): Promise<void> {
  const none = ["'none'"];
  const self = ["'self'"];
  await app.register(helmet, {
    contentSecurityPolicy: {
      useDefaults: false,
      directives: {
        defaultSrc: none,
        scriptSrc: self,
        styleSrc: self,
        imgSrc: self,
        connectSrc: self,
        baseUri: none,
        formAction: none,
        frameAncestors: none,
        ...sources,
      },
    },
    xContentTypeOptions: true,
    referrerPolicy: { policy: 'no-referrer' },
    crossOriginOpenerPolicy: { policy: 'same-origin' },
    crossOriginResourcePolicy: { policy: 'same-origin' },
    xFrameOptions: { action: 'deny' },
    strictTransportSecurity: false, // set by the proxy that ends TLS
    originAgentCluster: false,
    xDnsPrefetchControl: false,
    xDownloadOptions: false,
    xPermittedCrossDomainPolicies: false,
    xXssProtection: false,
  });
}
