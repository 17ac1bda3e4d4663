import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { FastifyInstance } from 'fastify';
import { contentHash, type PageFile, servePage } from './pages.ts';
import { type ApiDocument, referencePage } from './reference/referencePage.ts';

const HTML = 'text/html';
const FILES = join(import.meta.dirname, 'reference');

/** The guide, which is Markdown, and the reference of /openapi.json, at /docs. */
export async function apiReference(app: FastifyInstance, guide: URL): Promise<void> {
  await servePage(app, {
    path: '/docs',
    readFiles: () => {
      const files = [
        {
          path: 'style.css',
          type: 'text/css',
          body: read('../basics.css') + read('style.css'),
        },
        file('tryIt.js', 'text/javascript'),
        file('icon.svg', 'image/svg+xml'),
      ];
      const links = files.map(({ path, body }) => `docs/${path}?${contentHash(body)}`);
      const page = referencePage(app.swagger() as unknown as ApiDocument, readFileSync(guide, 'utf8'), links);
      return [{ path: '', type: HTML, body: page }, ...files];
    },
  });
}

const read = (file: string): string => readFileSync(join(FILES, file), 'utf8');
const file = (path: string, type: string): PageFile => ({ path, type, body: read(path) });
