import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { browserModules } from './browserModules.ts';

const SOURCES = join(import.meta.dirname, '..');
const PAGE = join(import.meta.dirname, 'audit');

/** A file of the page; the path of its HTML is empty. */
export type PageFile = { path: string; type: string; body: string };

/** The auditor's page: files to serve below /audit, which hold nothing of the log and require no token. */
export async function auditPageFiles(): Promise<PageFile[]> {
  const modules = await browserModules(SOURCES, 'pages/audit/main.ts');
  return [
    { path: '', type: 'text/html; charset=utf-8', body: read('index.html') },
    { path: 'style.css', type: 'text/css; charset=utf-8', body: read('style.css') },
    { path: 'icon.svg', type: 'image/svg+xml', body: read('icon.svg') },
    ...[...modules].map(([path, body]) => ({ path, type: 'text/javascript; charset=utf-8', body })),
  ];
}

const read = (file: string): string => readFileSync(join(PAGE, file), 'utf8');
