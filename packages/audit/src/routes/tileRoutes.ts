import { HttpError, NO_PARAMETERS, tooManyInFlight } from '@event-sourced/http';
import { formatDigestBundle, parseTilePath, type TileOrEntries } from '@event-sourced/tlog';
import { caughtUp } from '@event-sourced/transparency-log/view';
import type { FastifyInstance, FastifyRequest, FastifySchema } from 'fastify';
import { type TSchema, Type } from 'typebox';
import { inFlightLimit } from '../limits.ts';
import type { TreeOptions } from '../options.ts';
import { described, FOR_MONITORS, MONITOR_SCOPE, requireMonitorScope } from './schemas.ts';

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

const bytes = (description: string) => ({
  description,
  headers: { 'Cache-Control': described(`Always ${IMMUTABLE}.`, IMMUTABLE) },
  content: { [BYTES]: { schema: Type.String({ format: 'binary' }) } },
});

/** GET /tile/…: the tiles of the tree, and the entries of the log: https://c2sp.org/tlog-tiles. */
export function tileRoutes(app: FastifyInstance, options: TreeOptions): void {
  const { tree, log, errors } = options;
  const tiles = inFlightLimit('tiles');
  const schema = (description: string, content: string) => ({
    ...FOR_MONITORS,
    description: `${description} ${PATHS}`,
    response: { 200: bytes(content) },
    errors: [errors.insufficientScope, errors.noSuchTile, errors.viewBehind, tooManyInFlight(tiles)],
  });
  const hashes = schema(
    'At level 0, the hashes of entries; at higher levels, the hashes of tiles of the level below.',
    'Up to 256 hashes of 32 bytes.',
  );
  const entries = schema(
    'The entries of a tile of level 0: a digest of each event, which stays when the event is erased.',
    'Up to 256 entries of 32 bytes, each preceded by its length in two bytes.',
  );
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
    app.get(
      path,
      { onRequest: requireMonitorScope, config: { scopes: [MONITOR_SCOPE] }, schema },
      async (request, reply) => {
        const tile = parseTile(request);
        if (!tiles.add(request.user, reply.raw)) return reply.send();
        await assertHas(tile);
        return reply.type(BYTES).header('cache-control', IMMUTABLE).send(read(tile));
      },
    );

  /** The tile of a path; generated clients escape its slashes. @throws HttpError */
  function parseTile({ params }: FastifyRequest): TileOrEntries {
    const { level = 'entries', index, width, '*': rest } = params as Record<string, string | undefined>;
    const tile = parseTilePath(
      `tile/${rest ?? `${level}/${index}${width === undefined ? '' : `.p/${width}`}`}`,
    );
    if (!tile) throw new HttpError(errors.noSuchTile);
    return tile;
  }

  function read({ level, index, width }: TileOrEntries): Uint8Array {
    if (level !== 'entries') return tree.readable.readTile({ level, index, width });
    return formatDigestBundle(tree.readable.readEntries(index, width));
  }

  /** A checkpoint of another instance may include a tile that this instance does not have yet. @throws HttpError */
  async function assertHas({ level, index, width }: TileOrEntries): Promise<void> {
    const tile = { level: level === 'entries' ? 0 : level, index, width };
    if (tree.readable.has(tile)) return;
    await caughtUp(tree, log);
    if (!tree.readable.has(tile))
      throw new HttpError(
        errors.noSuchTile,
        `The tree of ${tree.readable.head.size} events does not have it.`,
      );
  }
}
