import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { FastifyInstance } from 'fastify';
import { pageHeaders } from '../http/pageHeaders.ts';
import { readStaticFile, type StaticFile, sendFile } from '../http/staticFile.ts';

const PAGE = join(import.meta.dirname, 'reference');
const TEXT_CSS = 'text/css; charset=utf-8';
const TEXT_JAVASCRIPT = 'text/javascript; charset=utf-8';

/** The API reference: Swagger UI, on which a developer with a token tries the operations of /openapi.json. */
export async function referencePage(app: FastifyInstance): Promise<void> {
  await pageHeaders(app, { imgSrc: ["'self'", 'data:'] }); // for the icons in the style sheet
  const schema = { hide: true };
  const fileAt = (path: string): StaticFile | undefined => {
    files ??= readFiles();
    return files.get(path);
  };
  app.get('/docs', { schema }, async (request, reply) => sendFile(request, reply, fileAt('')));
  app.get('/docs/', { schema }, async (_request, reply) => reply.redirect('../docs'));
  app.get<{ Params: { '*': string } }>('/docs/static/*', { schema }, async (request, reply) =>
    sendFile(request, reply, fileAt(request.params['*'])),
  );
}

/** Read at the first request. */
let files: ReadonlyMap<string, StaticFile> | undefined;

/** The page, and its files by path below /docs/static. */
function readFiles(): ReadonlyMap<string, StaticFile> {
  const swaggerUi = join(dirname(fileURLToPath(import.meta.resolve('@fastify/swagger-ui'))), 'static');
  const ofSwaggerUi = (name: string, type: string) =>
    [name, readStaticFile(type, join(swaggerUi, name))] as const;
  return new Map<string, StaticFile>([
    ['', readStaticFile('text/html; charset=utf-8', join(PAGE, 'index.html'))],
    ['start.js', readStaticFile(TEXT_JAVASCRIPT, join(PAGE, 'start.js'))],
    ofSwaggerUi('swagger-ui-bundle.js', TEXT_JAVASCRIPT),
    ofSwaggerUi('swagger-ui.css', TEXT_CSS),
    ofSwaggerUi('index.css', TEXT_CSS),
    ofSwaggerUi('favicon-16x16.png', 'image/png'),
    ofSwaggerUi('favicon-32x32.png', 'image/png'),
  ]);
}
