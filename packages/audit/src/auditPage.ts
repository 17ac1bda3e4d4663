import { readFileSync } from 'node:fs';
import { extname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { servePage } from '@event-sourced/http';
import type { FastifyInstance } from 'fastify';
import { browserModules } from './browserModules.ts';
import type { Domain } from './domain.ts';

const PAGE = join(import.meta.dirname, 'page');
/** The extension of modules: .ts, or .js when compiled. */
const EXTENSION = extname(import.meta.filename);

/** The auditor's page, at /audit. Loading it needs no token. Browsers import `domainModule`. */
export const auditPage = (app: FastifyInstance, domain: Domain, domainModule: URL): Promise<void> =>
  servePage(app, { path: '/audit', readFiles: () => pageFiles(domain, domainModule) });

async function pageFiles({ title, command, streams: { noun }, create }: Domain, domainModule: URL) {
  const texts: Record<string, string> = {
    title,
    command,
    noun,
    ...create,
    Noun: noun.replace(/^./, (c) => c.toUpperCase()),
  };
  const html = read('index.html').replace(/\{(\w+)\}/g, (_, name) => texts[name] as string);
  const modules = await browserModules(join(PAGE, `main${EXTENSION}`), {
    'node:crypto': join(PAGE, `node/crypto${EXTENSION}`),
    'lru-cache': join(PAGE, `node/lruCache${EXTENSION}`),
    'audit:domain': fileURLToPath(domainModule),
  });
  return [
    { path: '', type: 'text/html; charset=utf-8', body: html },
    { path: 'style.css', type: 'text/css; charset=utf-8', body: read('style.css') },
    { path: 'icon.svg', type: 'image/svg+xml', body: read('icon.svg') },
    ...[...modules].map(([path, body]) => ({ path, type: 'text/javascript; charset=utf-8', body })),
  ];
}

const read = (file: string): string => readFileSync(join(PAGE, file), 'utf8');
