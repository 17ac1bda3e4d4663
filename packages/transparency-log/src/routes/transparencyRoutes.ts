import type { ServerResponse } from 'node:http';
import { pipeline, Readable } from 'node:stream';
import { createGzip } from 'node:zlib';
import type { EventLog, RecordedEvent } from '@event-sourced/event-log';
import type {
  FastifyPluginAsync,
  FastifyReply,
  FastifyRequest,
  FastifySchema,
  onRequestAsyncHookHandler,
} from 'fastify';
import Negotiator from 'negotiator';
import { readEntries, type TreeAndLog } from '../entries/readEntries.ts';
import { receiptOf } from '../entries/receipt.ts';
import { parseTilePath, type Tile, type TileOrEntries } from '../merkle/tiles.ts';
import { formatVerifierKey, type VerifierKey } from '../notes/signedNote.ts';
import type { Checkpoints } from './checkpoints.ts';

/** Half the CPU of the default level, for a tenth more bytes: the entries of a bundle are much alike. */
const FASTEST = 1;
const TEXT = 'text/plain; charset=utf-8';
const BYTES = 'application/octet-stream';
/** A tile never changes. It is for the holder of the token only. */
export const IMMUTABLE = 'private, max-age=31536000, immutable';

/** The path is not that of a tile of the tree. The message is for clients. */
export class NoSuchTile extends Error {
  override readonly name = 'NoSuchTile';
}

/** Limits the responses in flight of a user: false if the client has disconnected. It may throw. */
type Limit = { add(user: string, response: ServerResponse): boolean };

/** What the routes get of their application. */
export type TransparencyOptions = {
  tree: TreeAndLog['tree'];
  log: EventLog;
  checkpoints: Checkpoints;
  logKey: VerifierKey;
  requireAuditor: onRequestAsyncHookHandler;
  userOf: (request: FastifyRequest) => string;
  /** Resolves in the user's turn of the event loop. */
  turn: (user: string) => Promise<void>;
  limits: Record<'tiles' | 'entries' | 'receipts', Limit>;
  schemas: Record<
    'logKey' | 'checkpoint' | 'tile' | 'partialTile' | 'entries' | 'partialEntries' | 'receipt',
    FastifySchema
  >;
  receipts: {
    path: string;
    onRequest: onRequestAsyncHookHandler;
    find: (request: FastifyRequest) => Promise<RecordedEvent>;
    fileName: (request: FastifyRequest) => string;
  };
};

/** The log as a transparency log: https://c2sp.org/tlog-tiles. A receipt is a https://c2sp.org/tlog-proof. */
export const transparencyRoutes: FastifyPluginAsync<TransparencyOptions> = async (app, options) => {
  const { tree, log, checkpoints, requireAuditor, userOf, turn, limits, schemas, receipts } = options;
  const verifierKey = `${formatVerifierKey(options.logKey)}\n`;

  app.get('/log-key', { schema: schemas.logKey }, async (_request, reply) =>
    reply.type(TEXT).send(verifierKey),
  );

  app.get(
    '/checkpoint',
    { onRequest: requireAuditor, schema: schemas.checkpoint },
    async ({ query }, reply) =>
      reply
        .type(TEXT)
        .send(await ('latest' in (query as object) ? checkpoints.latest() : checkpoints.cosigned())),
  );
  app.addHook('onClose', () => checkpoints.close());

  // OpenAPI has no parameter with slashes, as the index of a tile after the first 1,000 has: the last route is for those.
  const tileRoutes: [path: string, schema: FastifySchema & { hide?: boolean }][] = [
    ['/tile/:level/:index', schemas.tile],
    ['/tile/:level/:index.p/:width', schemas.partialTile],
    ['/tile/entries/:index', schemas.entries],
    ['/tile/entries/:index.p/:width', schemas.partialEntries],
    ['/tile/*', { hide: true }],
  ];
  for (const [path, schema] of tileRoutes)
    app.get(path, { onRequest: requireAuditor, schema }, async (request, reply) => {
      const { level, index, width } = parseTile(request);
      return level === 'entries'
        ? sendEntries(request, reply, { index, width })
        : sendTile(request, reply, { level, index, width });
    });

  async function sendTile(request: FastifyRequest, reply: FastifyReply, tile: Tile): Promise<FastifyReply> {
    if (!limits.tiles.add(userOf(request), reply.raw)) return reply.send();
    await assertHas(tile);
    return reply.type(BYTES).header('cache-control', IMMUTABLE).send(tree.ready.readTile(tile));
  }

  async function sendEntries(
    request: FastifyRequest,
    reply: FastifyReply,
    { index, width }: Omit<Tile, 'level'>,
  ): Promise<FastifyReply> {
    const user = userOf(request);
    if (!limits.entries.add(user, reply.raw)) return reply.send();
    await assertHas({ level: 0, index, width });
    const pages = readEntries({ tree, log }, { index, width, turn: () => turn(user) });
    const first = await pages.next(); // before the response starts, there may be an error
    const isGzip = new Negotiator(request).encoding(['gzip', 'identity']) === 'gzip';
    reply.type(BYTES).header('cache-control', IMMUTABLE);
    addVary(reply, 'Accept-Encoding');
    if (isGzip) reply.header('content-encoding', 'gzip');
    if (request.method === 'HEAD') return reply.send(Readable.from([]));
    const body = Readable.from(startingWith(first, pages), { highWaterMark: 1 });
    return reply.send(isGzip ? pipeline(body, createGzip({ level: FASTEST }), () => {}) : body);
  }

  app.get(
    receipts.path,
    { onRequest: receipts.onRequest, schema: schemas.receipt },
    async (request, reply) => {
      const user = userOf(request);
      if (!limits.receipts.add(user, reply.raw)) return reply.send();
      await turn(user);
      const receipt = await receiptOf(await receipts.find(request), { tree, log, checkpoints });
      return reply
        .type(TEXT)
        .header('content-disposition', `attachment; filename="${receipts.fileName(request)}"`)
        .send(receipt);
    },
  );

  /** A checkpoint of another instance may have a tile that this one does not have yet. @throws NoSuchTile */
  async function assertHas(tile: Tile): Promise<void> {
    if (tree.ready.has(tile)) return;
    await checkpoints.caughtUp();
    if (!tree.ready.has(tile))
      throw new NoSuchTile(`The tree of ${tree.ready.head.size} events does not have it.`);
  }
};

/** The tile of a path; generated clients escape its slashes. @throws NoSuchTile */
function parseTile({ params }: FastifyRequest): TileOrEntries {
  const { level = 'entries', index, width, '*': rest } = params as Record<string, string | undefined>;
  const tile = parseTilePath(
    `tile/${rest ?? `${level}/${index}${width === undefined ? '' : `.p/${width}`}`}`,
  );
  if (!tile) throw new NoSuchTile('Not the path of a tile (https://c2sp.org/tlog-tiles).');
  return tile;
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
