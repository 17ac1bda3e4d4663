import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { contentHash, type PageFile, servePage } from '@event-sourced/http';
import type { FastifyInstance } from 'fastify';
import type { EntityType, PageData } from './entityType.ts';

/** The auditor's page, at /audit: HTML with data of the entity type, and the bundle of ../page. Loading it needs no token. */
export async function auditPage(app: FastifyInstance, entityType: EntityType): Promise<void> {
  await servePage(app, {
    path: '/audit',
    readFiles: () => {
      const files = [
        file('page/page.js', 'text/javascript'),
        file('page/style.css', 'text/css'),
        file('icon.svg', 'image/svg+xml'),
      ];
      return [{ path: '', type: 'text/html', body: page(entityType, files) }, ...files];
    },
  });
}

const read = (name: string): string => readFileSync(join(import.meta.dirname, name), 'utf8');
const file = (path: string, type: string): PageFile => ({ path, type, body: read(path) });

/** The HTML: a frame until the script runs, with nothing that could be used before. */
function page({ title, command, streams, pattern, events, create }: EntityType, files: PageFile[]): string {
  const data: PageData = { title, command, noun: streams.noun, pattern, events, create };
  const [script = '', style = '', icon = ''] = files.map(
    ({ path, body }) => `audit/${path}?${contentHash(body)}`,
  );
  const texts: Record<string, string> = { title, data: JSON.stringify(data), script, style, icon };
  return read('page.html').replace(/\{(\w+)\}/g, (_, name) => toText(texts[name] as string));
}

const toText = (text: string): string =>
  text.replace(/[&<>"]/g, (character) => `&#${character.charCodeAt(0)};`);
