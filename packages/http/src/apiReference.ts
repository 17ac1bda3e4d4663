import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { FastifyInstance } from 'fastify';
import Negotiator from 'negotiator';
import { contentHash, type PageFile, servePage } from './pages.ts';
import { type ApiDocument, referencePage } from './reference/referencePage.ts';

const HTML = 'text/html';
const FILES = join(import.meta.dirname, 'reference');

/** The guide, which is Markdown, and the reference of /openapi.json, at /docs; `/` redirects browsers there. */
export async function apiReference(app: FastifyInstance, guide: URL): Promise<void> {
  app.get('/', { schema: { hide: true } }, async (request, reply) => {
    // The first of equal media types wins: a client that accepts everything is not a browser.
    if (new Negotiator(request).mediaType(['application/json', HTML]) !== HTML) return reply.callNotFound();
    return reply.redirect('docs');
  });
  await servePage(app, {
    path: '/docs',
    readFiles: () => {
      const files = [
        file('style.css', 'text/css; charset=utf-8'),
        file('tryIt.js', 'text/javascript; charset=utf-8'),
        file('icon.svg', 'image/svg+xml'),
      ];
      const links = files.map(({ path, body }) => `docs/${path}?${contentHash(body)}`);
      const page = referencePage(app.swagger() as unknown as ApiDocument, readFileSync(guide, 'utf8'), links);
      return [{ path: '', type: `${HTML}; charset=utf-8`, body: page }, ...files];
    },
  });
}

const file = (path: string, type: string): PageFile => ({
  path,
  type,
  body: readFileSync(join(FILES, path)),
});
