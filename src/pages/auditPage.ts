import { join } from 'node:path';
import type { FastifyInstance } from 'fastify';
import { pageHeaders } from '../http/pageHeaders.ts';
import { readStaticFile, type StaticFile, sendFile, staticFile } from '../http/staticFile.ts';
import { browserModules } from './browserModules.ts';

const SOURCES = join(import.meta.dirname, '..');
const PAGE = join(import.meta.dirname, 'audit');
const TEXT_JAVASCRIPT = 'text/javascript; charset=utf-8';

/** The auditor's page: static files, which hold nothing of the log and require no token. */
export async function auditPage(app: FastifyInstance): Promise<void> {
  await pageHeaders(app);
  const fileAt = async (path: string): Promise<StaticFile | undefined> => {
    files ??= readFiles().catch((error) => {
      files = undefined; // the next request tries again
      throw error;
    });
    return (await files).get(path);
  };

  const schema = { hide: true };
  app.get('/audit', { schema }, async (request, reply) => sendFile(request, reply, await fileAt('')));
  app.get<{ Params: { '*': string } }>('/audit/*', { schema }, async (request, reply) =>
    sendFile(request, reply, await fileAt(request.params['*'])),
  );
}

type Files = ReadonlyMap<string, StaticFile>;

/** Read at the first request. */
let files: Promise<Files> | undefined;

/** The files by path below /audit. */
async function readFiles(): Promise<Files> {
  const modules = await browserModules(SOURCES, 'pages/audit/main.ts');
  return new Map<string, StaticFile>([
    ['', readStaticFile('text/html; charset=utf-8', join(PAGE, 'index.html'))],
    ['style.css', readStaticFile('text/css; charset=utf-8', join(PAGE, 'style.css'))],
    ['icon.svg', readStaticFile('image/svg+xml', join(PAGE, 'icon.svg'))],
    ...[...modules].map(([path, text]) => [path, staticFile(TEXT_JAVASCRIPT, Buffer.from(text))] as const),
  ]);
}
