import { fileURLToPath } from 'node:url';
import type { FastifyInstance } from 'fastify';
import { pageHeaders } from '../http/pageHeaders.ts';
import { type StaticFile, sendFile, staticFile } from '../http/staticFile.ts';
import { auditPageFiles } from '../pages/auditPage.ts';
import { domain } from '../plants/auditPageDomain.ts';

const DOMAIN_MODULE = fileURLToPath(import.meta.resolve('../plants/auditPageDomain.ts'));

/** The audit page. It requires no token, since its files hold nothing of the log; they are read at the first request. */
export async function auditPage(app: FastifyInstance): Promise<void> {
  await pageHeaders(app);
  let files: Promise<ReadonlyMap<string, StaticFile>> | undefined;
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

async function readFiles(): Promise<ReadonlyMap<string, StaticFile>> {
  const files = await auditPageFiles(domain, DOMAIN_MODULE);
  return new Map(files.map(({ path, type, body }) => [path, staticFile(type, Buffer.from(body))]));
}
