import { hash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { HTTP_ERRORS, HttpError } from '../http/errors.ts';
import { pageHeaders } from '../http/pageHeaders.ts';
import { browserModules } from './browserModules.ts';

const SOURCES = join(import.meta.dirname, '..');
const TEXT_JAVASCRIPT = 'text/javascript; charset=utf-8';

type File = { type: string; content: string; etag: string };

/** The auditor's page: static files, which hold nothing of the log and require no token. */
export async function auditPage(app: FastifyInstance): Promise<void> {
  await pageHeaders(app);
  const send = async (request: FastifyRequest, reply: FastifyReply, path: string): Promise<FastifyReply> => {
    files ??= readFiles().catch((error) => {
      files = undefined; // the next request tries again
      throw error;
    });
    const file = (await files).get(path);
    if (!file) throw new HttpError(HTTP_ERRORS.notFound, 'Not found.');
    reply.header('cache-control', 'no-cache').header('etag', file.etag).type(file.type);
    if (request.headers['if-none-match'] === file.etag) return reply.code(304).send();
    return reply.send(file.content);
  };

  const schema = { hide: true };
  app.get('/audit', { schema }, async (request, reply) => send(request, reply, ''));
  app.get<{ Params: { '*': string } }>('/audit/*', { schema }, async (request, reply) =>
    send(request, reply, request.params['*']),
  );
}

function fileOf(name: string, type: string): File {
  return withTag(type, readFileSync(join(import.meta.dirname, 'audit', name), 'utf8'));
}

function withTag(type: string, content: string): File {
  return { type, content, etag: `"${hash('sha256', content).slice(0, 32)}"` };
}

type Files = ReadonlyMap<string, File>;

/** Read at the first request. */
let files: Promise<Files> | undefined;

/** The files by path below /audit. */
async function readFiles(): Promise<Files> {
  const modules = await browserModules(SOURCES, 'pages/audit/main.ts');
  return new Map<string, File>([
    ['', fileOf('index.html', 'text/html; charset=utf-8')],
    ['style.css', fileOf('style.css', 'text/css; charset=utf-8')],
    ['icon.svg', fileOf('icon.svg', 'image/svg+xml')],
    ...[...modules].map(([path, text]) => [path, withTag(TEXT_JAVASCRIPT, text)] as const),
  ]);
}
