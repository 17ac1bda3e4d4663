import { pipeline, Readable } from 'node:stream';
import { createGzip } from 'node:zlib';
import accepts from '@fastify/accepts';
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { Type } from 'typebox';
import { readEntries, type TreeAndLog } from '../audit/readEntries.ts';
import type { TreeEnd } from '../audit/treeEnd.ts';
import { HTTP_ERRORS, HttpError } from '../http/errors.ts';
import { type Headers, response } from '../http/openapi.ts';
import { parseTilePath, type TileOrEntries } from '../merkle/tiles.ts';
import type { Turns } from '../time/turns.ts';
import { AUDIT_SCOPE, requireAuditScope } from './auth.ts';
import { InFlight } from './inFlight.ts';
import { errorsOf, tooManyInFlight } from './openapi.ts';

/** Half the CPU of the default level, for a tenth more bytes: the entries of a bundle are much alike. */
const FASTEST = 1;
const BYTES = 'application/octet-stream';
/** A tile never changes. It is for the holder of the token only. */
const IMMUTABLE = 'private, max-age=31536000, immutable';

const responses = (kind: 'tiles' | 'bundles of entries', description: string, headers: Headers = {}) => ({
  200: response(
    description,
    { [BYTES]: { schema: Type.String({ format: 'binary' }) } },
    { 'Cache-Control': Type.String({ description: `Always ${IMMUTABLE}.` }), ...headers },
  ),
  ...errorsOf([
    'insufficientScope',
    {
      ...HTTP_ERRORS.notFound,
      description: 'the path is not that of a tile, or the tree does not have the tile',
    },
    tooManyInFlight(kind),
  ]),
});

type Dependencies = TreeAndLog & { treeEnd: TreeEnd; turns: Turns };

/** The tiles of the Merkle tree, and the entries that are hashed: https://c2sp.org/tlog-tiles */
export const tileRoutes: FastifyPluginAsyncTypebox<Dependencies> = async (app, deps) => {
  const { tree, log, treeEnd, turns } = deps;
  const tilesInFlight = new InFlight('tiles');
  const bundlesInFlight = new InFlight('bundles of entries');
  await app.register(accepts);
  const security = [{ bearer: [AUDIT_SCOPE] }];

  app.get(
    '/tile/*',
    {
      onRequest: requireAuditScope,
      schema: {
        operationId: 'getTile',
        tags: ['audit'],
        summary: 'A tile of the Merkle tree',
        response: responses('tiles', 'Up to 256 hashes of 32 bytes.'),
        security,
      },
    },
    async (request, reply) => {
      const { level, index, width } = parseTile(`tile/${restOfPath(request)}`);
      if (level === 'entries') throw notATile();
      if (!tilesInFlight.add(request.user, reply.raw)) return reply.send();
      const hashes = await inTree(() => tree.readTile({ level, index, width }));
      return reply.type(BYTES).header('cache-control', IMMUTABLE).send(hashes);
    },
  );

  app.get(
    '/tile/entries/*',
    {
      onRequest: requireAuditScope,
      schema: {
        operationId: 'getEntries',
        tags: ['audit'],
        summary: 'The entries of a tile of level 0: the bytes that are hashed',
        response: responses('bundles of entries', 'Up to 256 entries, each after its length in two bytes.', {
          'Content-Encoding': Type.String({ description: 'gzip, if the client accepts it.' }),
          Vary: Type.String({ description: 'Accept-Encoding.' }),
        }),
        security,
      },
    },
    async (request, reply) => {
      const { index, width } = parseTile(`tile/entries/${restOfPath(request)}`);
      if (!bundlesInFlight.add(request.user, reply.raw)) return reply.send();
      await inTree(() => tree.has({ level: 0, index, width }) || undefined);
      const pages = readEntries({ tree, log }, { index, width, turn: () => turns.next(request.user) });
      const first = await pages.next(); // before the response starts, there may be an error
      const isGzip = request.accepts().encoding(['gzip', 'identity']) === 'gzip';
      reply.type(BYTES).header('cache-control', IMMUTABLE);
      addVary(reply, 'Accept-Encoding');
      if (isGzip) reply.header('content-encoding', 'gzip');
      if (request.method === 'HEAD') return reply.send(Readable.from([]));
      const body = Readable.from(startingWith(first, pages), { highWaterMark: 1 });
      return reply.send(isGzip ? pipeline(body, createGzip({ level: FASTEST }), () => {}) : body);
    },
  );

  /** What is found in the tree. A checkpoint of another instance may have a tile that this one does not have yet. */
  async function inTree<T>(find: () => T | undefined): Promise<T> {
    const found = find();
    if (found !== undefined) return found;
    await treeEnd.reached();
    const added = find();
    if (added !== undefined) return added;
    throw new HttpError(HTTP_ERRORS.notFound, `The tree of ${tree.current.size} events does not have it.`);
  }
};

/** What follows the fixed part of a path, decoded: generated clients escape its slashes. */
function restOfPath({ params }: FastifyRequest): string {
  return (params as { '*': string })['*'];
}

/** @throws HttpError */
function parseTile(path: string): TileOrEntries {
  const tile = parseTilePath(path);
  if (!tile) throw notATile();
  return tile;
}

function notATile(): HttpError {
  return new HttpError(HTTP_ERRORS.notFound, 'Not the path of a tile (https://c2sp.org/tlog-tiles).');
}

/** CORS may vary by Origin already. */
function addVary(reply: FastifyReply, field: string): void {
  const fields = [reply.getHeader('vary'), field].filter((one) => one !== undefined);
  reply.header('vary', fields.join(', '));
}

async function* startingWith<T>(first: IteratorResult<T>, others: AsyncGenerator<T>): AsyncGenerator<T> {
  if (first.done) return;
  yield first.value;
  yield* others;
}
