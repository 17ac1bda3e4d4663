import { pipeline, Readable } from 'node:stream';
import { createGzip } from 'node:zlib';
import { HttpError, NO_PARAMETERS, tooManyInFlight } from '@event-sourced/http';
import { parseTilePath, type Tile, type TileOrEntries } from '@event-sourced/transparency-log';
import { readEntries } from '@event-sourced/transparency-log/entries';
import type { FastifyInstance, FastifyReply, FastifyRequest, FastifySchema } from 'fastify';
import Negotiator from 'negotiator';
import { type TSchema, Type } from 'typebox';
import type { TreeOptions } from '../audit.ts';
import { inFlightLimit } from '../limits.ts';
import { described, FOR_AUDITORS, requireAuditScope } from './schemas.ts';
import { startingWith } from './startingWith.ts';

/** Half the CPU of the default level for a tenth more bytes: the entries of a bundle are similar. */
const FASTEST = 1;
const BYTES = 'application/octet-stream';
/** Tiles never change, and only holders of a token may get them. */
const IMMUTABLE = 'private, max-age=31536000, immutable';

type Fields = Record<string, TSchema>;

const PATHS = 'Paths are those of [C2SP tlog-tiles](https://c2sp.org/tlog-tiles).';
const LEVEL = { level: described('From 0, the level of the leaves.', '0') };
const INDEX = {
  index: described(
    'From 000. After 999, groups of three digits, all but the last with an x: x001/234.',
    '000',
  ),
};
const WIDTH = { width: described('The number of hashes in the last tile of a level, from 1 to 255.', '1') };

const ENTRY_HEADERS = {
  'Content-Encoding': described('gzip, if the client accepts it.', 'gzip'),
  Vary: described('Accept-Encoding.', 'Accept-Encoding'),
};

const bytes = (description: string, cacheControl: string, headers: Fields = {}) => ({
  description,
  headers: { 'Cache-Control': described(`Always ${cacheControl}.`, cacheControl), ...headers },
  content: { [BYTES]: { schema: Type.String({ format: 'binary' }) } },
});

/** GET /tile/…: the tiles of the tree, and the entries of the log: https://c2sp.org/tlog-tiles. */
export function tileRoutes(app: FastifyInstance, options: TreeOptions): void {
  const { tree, log, checkpoints, errors, fairQueue } = options;
  const [tiles, bundles] = [inFlightLimit('tiles'), inFlightLimit('bundles of entries')];
  const hashes = {
    ...FOR_AUDITORS,
    description: `At level 0, the hashes of entries; at higher levels, the hashes of tiles of the level below. ${PATHS}`,
    response: { 200: bytes('Up to 256 hashes of 32 bytes.', IMMUTABLE) },
    errors: [errors.insufficientScope, errors.noSuchTile, errors.viewBehind, tooManyInFlight(tiles)],
  };
  const entries = {
    ...FOR_AUDITORS,
    description: `The entries from which the hashes of a tile of level 0 are computed; that of an erased event is \`{"erased":"…"}\` with its hash. ${PATHS}`,
    response: {
      200: bytes('Up to 256 entries, each preceded by its length in two bytes.', 'no-store', ENTRY_HEADERS),
    },
    errors: [
      errors.insufficientScope,
      errors.noSuchTile,
      errors.viewBehind,
      errors.http11Required,
      tooManyInFlight(bundles),
    ],
  };
  const describe = (operationId: string, summary: string, params: Fields) => ({
    operationId,
    summary,
    params: Type.Object(params),
  });
  // OpenAPI parameters cannot have slashes, but the index of a tile above 999 does: the last route is for these tiles.
  const routes: Record<string, FastifySchema> = {
    '/tile/:level/:index': {
      ...hashes,
      ...describe('getTile', 'A full tile of the Merkle tree', { ...LEVEL, ...INDEX }),
    },
    '/tile/:level/:index.p/:width': {
      ...hashes,
      ...describe('getPartialTile', 'The last tile of a level', { ...LEVEL, ...INDEX, ...WIDTH }),
    },
    '/tile/entries/:index': { ...entries, ...describe('getEntries', 'The entries of a full tile', INDEX) },
    '/tile/entries/:index.p/:width': {
      ...entries,
      ...describe('getPartialEntries', 'The entries of the last tile', { ...INDEX, ...WIDTH }),
    },
    '/tile/*': { hide: true, querystring: NO_PARAMETERS },
  };
  for (const [path, schema] of Object.entries(routes))
    app.get(path, { onRequest: requireAuditScope, schema }, async (request, reply) => {
      const { level, ...tile } = parseTile(request);
      if (level === 'entries') return sendEntries(request, reply, tile);
      return sendTile(request, reply, { level, ...tile });
    });

  /** The tile of a path; generated clients escape its slashes. @throws HttpError */
  function parseTile({ params }: FastifyRequest): TileOrEntries {
    const { level = 'entries', index, width, '*': rest } = params as Record<string, string | undefined>;
    const tile = parseTilePath(
      `tile/${rest ?? `${level}/${index}${width === undefined ? '' : `.p/${width}`}`}`,
    );
    if (!tile) throw new HttpError(errors.noSuchTile);
    return tile;
  }

  async function sendTile({ user }: FastifyRequest, reply: FastifyReply, tile: Tile): Promise<FastifyReply> {
    if (!tiles.add(user, reply.raw)) return reply.send();
    await assertHas(tile);
    return reply.type(BYTES).header('cache-control', IMMUTABLE).send(tree.ready.readTile(tile));
  }

  async function sendEntries(
    request: FastifyRequest,
    reply: FastifyReply,
    { index, width }: Omit<Tile, 'level'>,
  ): Promise<FastifyReply> {
    const { user } = request;
    if (!bundles.add(user, reply.raw)) return reply.send();
    await assertHas({ level: 0, index, width });
    const pages = readEntries({ tree, log }, { index, width, nextTurn: () => fairQueue.next(user) });
    const first = await pages.next();
    const isGzip = new Negotiator(request).encoding(['gzip', 'identity']) === 'gzip';
    reply.type(BYTES).header('cache-control', 'no-store'); // events may be erased
    addVary(reply, 'Accept-Encoding');
    if (isGzip) reply.header('content-encoding', 'gzip');
    if (request.method === 'HEAD') return reply.send(Readable.from([]));
    const body = Readable.from(startingWith(first, pages), { highWaterMark: 1 });
    return reply.send(isGzip ? pipeline(body, createGzip({ level: FASTEST }), () => {}) : body);
  }

  /** A checkpoint of another instance may include a tile that this instance does not have yet. @throws HttpError */
  async function assertHas(tile: Tile): Promise<void> {
    if (tree.ready.has(tile)) return;
    await checkpoints.caughtUp();
    if (!tree.ready.has(tile))
      throw new HttpError(errors.noSuchTile, `The tree of ${tree.ready.head.size} events does not have it.`);
  }
}

/** The CORS plugin may already have set Vary. */
function addVary(reply: FastifyReply, field: string): void {
  const fields = [reply.getHeader('vary'), field].filter((one) => one !== undefined);
  reply.header('vary', fields.join(', '));
}
