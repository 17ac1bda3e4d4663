import { hash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { basename, dirname, extname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { servePage } from '@event-sourced/http';
import type { FastifyInstance } from 'fastify';
import { browserModules } from './browserModules.ts';
import type { EntityType } from './entityType.ts';

const PAGE = join(import.meta.dirname, 'page');

/**
 * The auditor's page, at /audit. Loading it needs no token. `entityTypeModule` exports `entityType`; browsers may load
 * all modules of its directory.
 */
export async function auditPage(
  app: FastifyInstance,
  entityType: EntityType,
  entityTypeModule: URL,
): Promise<void> {
  const file = fileURLToPath(entityTypeModule);
  const html = fill(read('index.html'), entityType, basename(file));
  const [, importMap = ''] = /<script type="importmap">(.*?)<\/script>/s.exec(html) ?? [];
  await servePage(app, {
    path: '/audit',
    sources: { 'script-src': ["'self'", `'sha256-${hash('sha256', importMap, 'base64')}'`] },
    readFiles: async () => {
      const modules = await browserModules(directories(dirname(file)));
      return [
        { path: '', type: 'text/html', body: html },
        { path: 'style.css', type: 'text/css', body: read('style.css') },
        { path: 'icon.svg', type: 'image/svg+xml', body: read('icon.svg') },
        ...[...modules].map(([path, body]) => ({ path, type: 'text/javascript', body })),
      ];
    },
  });
}

const read = (file: string): string => readFileSync(join(PAGE, file), 'utf8');

function fill(
  html: string,
  { title, command, streams: { noun }, create }: EntityType,
  entityTypeModule: string,
): string {
  const texts: Record<string, string> = {
    title,
    command,
    noun,
    ...create,
    Noun: noun.replace(/^./, (c) => c.toUpperCase()),
    entityTypeModule,
    extension: extname(import.meta.filename), // .ts, or .js when compiled
  };
  return html.replace(/\{(\w+)\}/g, (_, name) => texts[name] as string);
}

/** The directories of modules, by their path below /audit, which the import map of the page also has. */
function directories(ofEntityType: string): Record<string, string> {
  const { resolve } = createRequire(import.meta.url);
  const tlog = dirname(resolve('@event-sourced/tlog'));
  return {
    app: ofEntityType,
    canonicalize: dirname(resolve('canonicalize')),
    digest: dirname(resolve('@event-sourced/transparency-log/digest')),
    'event-log/erasure': dirname(resolve('@event-sourced/event-log/erasure')),
    histogram: join(import.meta.dirname, 'histogram'),
    hashes: dirname(resolve('@noble/hashes/sha2.js')),
    page: PAGE,
    tlog,
    'tlog/crypto': join(tlog, 'crypto'),
    'tlog/merkle': join(tlog, 'merkle'),
    'tlog/notes': join(tlog, 'notes'),
  };
}
