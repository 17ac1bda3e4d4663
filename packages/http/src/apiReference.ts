import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { FastifyInstance } from 'fastify';
import Negotiator from 'negotiator';
import { type PageFile, servePage } from './pages.ts';

const HTML = 'text/html';
const HERE = join(import.meta.dirname, 'reference');
const SWAGGER_UI = dirname(fileURLToPath(import.meta.resolve('swagger-ui-dist')));

/** Swagger UI for /openapi.json, at /docs; `/` redirects browsers there. */
export async function apiReference(app: FastifyInstance, { title }: { title: string }): Promise<void> {
  app.get('/', { schema: { hide: true } }, async (request, reply) => {
    // The first of equal media types wins: a client that accepts everything is not a browser.
    if (new Negotiator(request).mediaType(['application/json', HTML]) !== HTML) return reply.callNotFound();
    return reply.redirect('docs');
  });
  await servePage(app, {
    path: '/docs',
    sources: { 'img-src': ["'self'", 'data:'] }, // for the icons in the style sheet
    readFiles: () => referenceFiles(title),
  });
}

function referenceFiles(title: string): PageFile[] {
  const html = readFileSync(join(HERE, 'index.html'), 'utf8').replace('{title}', title);
  const inStatic = (dir: string, name: string, type: string): PageFile => ({
    path: `static/${name}`,
    type,
    body: readFileSync(join(dir, name)),
  });
  return [
    { path: '', type: 'text/html; charset=utf-8', body: html },
    inStatic(HERE, 'start.js', 'text/javascript; charset=utf-8'),
    inStatic(HERE, 'style.css', 'text/css; charset=utf-8'),
    inStatic(SWAGGER_UI, 'swagger-ui-bundle.js', 'text/javascript; charset=utf-8'),
    inStatic(SWAGGER_UI, 'swagger-ui.css', 'text/css; charset=utf-8'),
    inStatic(SWAGGER_UI, 'favicon-32x32.png', 'image/png'),
  ];
}
