import { readFileSync } from 'node:fs';
import { extname, join } from 'node:path';
import { browserModules } from './browserModules.ts';
import type { Domain } from './domain.ts';

const PAGE = join(import.meta.dirname, 'page');
/** Of modules: .ts, or .js once they are compiled. */
const EXTENSION = extname(import.meta.filename);

export type PageFile = { path: string; type: string; body: string };

/** The auditor's page: files to serve below /audit. Browsers load the domain from its module. */
export async function auditPageFiles(domain: Domain, domainModule: string): Promise<PageFile[]> {
  const { title, noun, create } = domain;
  const texts: Record<string, string> = {
    title,
    noun,
    ...create,
    Noun: noun.replace(/^./, (c) => c.toUpperCase()),
  };
  const html = read('index.html').replace(/\{(\w+)\}/g, (_, name) => texts[name] as string);
  const modules = await browserModules(join(PAGE, `main${EXTENSION}`), {
    'node:crypto': join(PAGE, `node/crypto${EXTENSION}`),
    'lru-cache': join(PAGE, `node/lruCache${EXTENSION}`),
    'audit:domain': domainModule,
  });
  return [
    { path: '', type: 'text/html; charset=utf-8', body: html },
    { path: 'style.css', type: 'text/css; charset=utf-8', body: read('style.css') },
    { path: 'icon.svg', type: 'image/svg+xml', body: read('icon.svg') },
    ...[...modules].map(([path, body]) => ({ path, type: 'text/javascript; charset=utf-8', body })),
  ];
}

const read = (file: string): string => readFileSync(join(PAGE, file), 'utf8');
