import { pipeline, Readable } from 'node:stream';
import { createGzip } from 'node:zlib';
import accepts from '@fastify/accepts';
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import type { FastifyRequest } from 'fastify';
import { Type } from 'typebox';
import type { LogTree } from '../../projections/merkleTree/logTree.ts';
import { caughtUp, readEntries } from '../audit/entryBundle.ts';
import { receiptOf } from '../audit/receipt.ts';
import type { EventLog } from '../eventStore/eventStore.ts';
import { HTTP_ERRORS, HttpError } from '../http/errors.ts';
import { errorResponses, response } from '../http/openapi.ts';
import { textSchema } from '../http/textSchema.ts';
import { parseTilePath, type TileOrEntries } from '../merkle/tiles.ts';
import { INT64_RULE, isInt64Text } from '../plants/stream.ts';
import { isUser, USER_RULE } from '../plants/user.ts';
import { formatInclusionProof } from '../transparency/inclusionProof.ts';
import type { LogKey } from '../transparency/logKey.ts';
import { formatVerifierKey } from '../transparency/signedNote.ts';
import { AUDIT_SCOPE, assertScope } from './auth.ts';
import { Checkpoints } from './checkpoints.ts';
import { ERROR_DESCRIPTIONS } from './openapi.ts';

const TEXT = 'text/plain; charset=utf-8';
const BYTES = 'application/octet-stream';

/** A tile never changes. It is for the holder of the token only. */
const IMMUTABLE = 'private, max-age=31536000, immutable';

const CACHED_FOR_EVER = { 'Cache-Control': Type.String({ description: `Always ${IMMUTABLE}.` }) };
const Text = (description: string) => ({ 'text/plain': Type.String({ description }) });
const Bytes = { [BYTES]: Type.String({ format: 'binary' }) };

const errorsOf = (descriptions: Record<number, string>, ...others: number[]) => {
  const own = Object.entries(descriptions).map(([status, description]) => [status, { description }]);
  const all = { ...ERROR_DESCRIPTIONS, ...Object.fromEntries(own) };
  const statuses = [...Object.keys(descriptions).map(Number), ...others];
  return errorResponses(all, {}, 400, ...statuses, 401, 408, 417, 431, 500, 503);
};
const TILE_ERRORS = errorsOf({ 404: 'The path is not that of a tile, or the tree does not have it.' }, 403);

const PlantQuery = Type.Object({
  id: textSchema(isInt64Text, INT64_RULE, { description: 'The ID of the plant.' }),
  user: Type.Optional(
    textSchema(isUser, USER_RULE, {
      description: 'Whose plant it is, for tokens with the scope audit; without it, your own.',
    }),
  ),
});

type Dependencies = { tree: LogTree; log: EventLog; logKey: LogKey; now: () => Date };

/** The log as a transparency log: https://c2sp.org/tlog-tiles, and receipts, https://c2sp.org/tlog-proof. */
export const transparencyRoutes: FastifyPluginAsyncTypebox<Dependencies> = async (app, deps) => {
  const { tree, logKey } = deps;
  const checkpoints = new Checkpoints(deps);
  const verifierKey = `${formatVerifierKey(logKey.verifierKey)}\n`;
  await app.register(accepts);

  const forAuditors = {
    // Before validation: callers without the scope learn nothing.
    onRequest: async (request: FastifyRequest) => assertScope(await request.verifyToken(), AUDIT_SCOPE),
  };
  const security = [{ bearer: [AUDIT_SCOPE] }];

  app.get(
    '/log-key',
    {
      schema: {
        operationId: 'getLogKey',
        summary: 'The public key of the log, by which checkpoints and receipts are verified',
        response: { 200: response('A verifier key.', Text('NAME+ID+KEY')), ...errorsOf({}) },
      },
    },
    async (_request, reply) => reply.type(TEXT).send(verifierKey),
  );

  app.get(
    '/checkpoint',
    {
      ...forAuditors,
      schema: {
        operationId: 'getCheckpoint',
        summary: 'Size and root of the log, signed (C2SP tlog-checkpoint)',
        response: { 200: response('A checkpoint.', Text('A signed note.')), ...errorsOf({}, 403) },
        security,
      },
    },
    async (_request, reply) => reply.type(TEXT).send(checkpoints.latest()),
  );

  app.get(
    '/tile/*',
    {
      ...forAuditors,
      schema: {
        operationId: 'getTile',
        summary: 'A tile of the Merkle tree (C2SP tlog-tiles)',
        response: {
          200: response('Up to 256 hashes of 32 bytes.', Bytes, CACHED_FOR_EVER),
          ...TILE_ERRORS,
        },
        security,
      },
    },
    async (request, reply) => {
      const { level, index, width } = parseTile(`tile/${rest(request)}`);
      if (level === 'entries') throw notATile();
      const hashes = await hashesOf({ level, index, width });
      return reply.type(BYTES).header('cache-control', IMMUTABLE).send(hashes);
    },
  );

  app.get(
    '/tile/entries/*',
    {
      ...forAuditors,
      schema: {
        operationId: 'getEntries',
        summary: 'The entries of a tile of level 0: the bytes that are hashed (C2SP tlog-tiles)',
        response: {
          200: response('Up to 256 entries, each after its length in two bytes.', Bytes, {
            ...CACHED_FOR_EVER,
            'Content-Encoding': Type.String({ description: 'gzip, if the client accepts it.' }),
            Vary: Type.String({ description: 'Accept-Encoding.' }),
          }),
          ...TILE_ERRORS,
        },
        security,
      },
    },
    async (request, reply) => {
      const { index, width } = parseTile(`tile/entries/${rest(request)}`);
      await hashesOf({ level: 0, index, width });
      const pages = readEntries(deps, { index, width });
      const first = await pages.next(); // before it, there may be an error
      const isGzip = request.accepts().encoding(['gzip', 'identity']) === 'gzip';
      reply.type(BYTES).header('cache-control', IMMUTABLE).header('vary', 'Accept-Encoding');
      if (isGzip) reply.header('content-encoding', 'gzip');
      if (request.method === 'HEAD') {
        await pages.return(undefined);
        return reply.send(Readable.from([]));
      }
      const body = Readable.from(startingWith(first, pages), { highWaterMark: 1 });
      return reply.send(isGzip ? pipeline(body, createGzip(), () => {}) : body);
    },
  );

  app.get(
    '/proofs/plants',
    {
      onRequest: async (request) => {
        if ('user' in (request.query as object)) await forAuditors.onRequest(request);
      },
      schema: {
        operationId: 'provePlant',
        summary: 'A receipt: the proof that the log has a plant (C2SP tlog-proof)',
        querystring: PlantQuery,
        response: {
          200: response('An inclusion proof, with the entry as extra data.', Text('A .tlog-proof file.'), {
            'Content-Disposition': Type.String({ description: 'A file name.' }),
          }),
          ...errorsOf({ 400: 'The query is invalid (40004).', 404: 'There is no such plant (40402).' }, 403),
        },
      },
    },
    async ({ user, query }, reply) => {
      const { entry, index, path, head } = await receiptOf({ user, ...query }, deps);
      const proof = { extra: entry, index, path, checkpoint: checkpoints.of(head) };
      return reply
        .type(TEXT)
        .header('content-disposition', `attachment; filename="plant-${query.id}.tlog-proof"`)
        .send(formatInclusionProof(proof));
    },
  );

  /** A checkpoint of another instance may name a tile that this one does not have yet. */
  async function hashesOf(tile: { level: number; index: number; width: number }): Promise<Buffer> {
    const hashes = tree.readTile(tile);
    if (hashes) return hashes;
    await caughtUp(deps);
    const added = tree.readTile(tile);
    if (added) return added;
    throw new HttpError(HTTP_ERRORS.notFound, `The tree of ${tree.current.size} events does not have it.`);
  }
};

/** The tile of the path `tile/…` that a request names. @throws HttpError */
function parseTile(path: string): TileOrEntries {
  const tile = parseTilePath(path);
  if (!tile) throw notATile();
  return tile;
}

/** What follows the fixed part of a path, decoded. */
const rest = ({ params }: FastifyRequest): string => (params as { '*': string })['*'];

const notATile = () =>
  new HttpError(HTTP_ERRORS.notFound, 'Not the path of a tile (https://c2sp.org/tlog-tiles).');

async function* startingWith<T>(first: IteratorResult<T>, others: AsyncGenerator<T>): AsyncGenerator<T> {
  if (first.done) return;
  yield first.value;
  yield* others;
}
