import { type TSchema, Type } from 'typebox';
import { IMMUTABLE, type TransparencyOptions } from './transparencyRoutes.ts';

type Route = keyof TransparencyOptions['schemas'];
type Headers = Record<string, TSchema>;

type Options = {
  errors: Record<Exclude<Route, 'partialTile' | 'partialEntries'>, object>;
  /** A verifier key, a checkpoint and a receipt, as they are sent. */
  examples: Record<'logKey' | 'checkpoint' | 'receipt', string>;
  security: readonly { [scheme: string]: readonly string[] }[];
  /** What names an entry, and the rest of its description. */
  receipt: object;
};

const described = (description: string, example: string) => Type.String({ description, examples: [example] });
const PATHS = 'Paths are those of [C2SP tlog-tiles](https://c2sp.org/tlog-tiles).';
const LEVEL = { level: described('From 0, the level of the leaves.', '0') };
const INDEX = {
  index: described(
    'From 000. After 999, groups of three digits, all but the last with an x: x001/234.',
    '000',
  ),
};
const WIDTH = { width: described('How many, from 1 to 255, of the last tile of a level.', '1') };

const text = (description: string, example: string, headers: Headers = {}) => ({
  description,
  headers,
  content: { 'text/plain': { schema: Type.String(), example } },
});

const bytes = (description: string, headers: Headers = {}) => ({
  description,
  headers: { 'Cache-Control': described(`Always ${IMMUTABLE}.`, IMMUTABLE), ...headers },
  content: { 'application/octet-stream': { schema: Type.String({ format: 'binary' }) } },
});

/** How an OpenAPI document describes the routes. */
export function transparencySchemas({ errors, examples, security, receipt }: Options) {
  const route = (name: keyof Options['errors'], success: object, rest: object) => ({
    ...rest,
    response: { 200: success, ...errors[name] },
  });
  const tags = ['audit'];
  const tile = (operationId: string, summary: string, params: Headers) =>
    route('tile', bytes('Hashes of 32 bytes, up to 256.'), {
      operationId,
      tags,
      summary,
      description: `At level 0, hashes of entries; above, of tiles of the level below. ${PATHS}`,
      params: Type.Object(params),
      security,
    });
  const entries = (operationId: string, summary: string, params: Headers) =>
    route(
      'entries',
      bytes('Entries, up to 256, each after its length in two bytes.', {
        'Content-Encoding': described('gzip, if the client accepts it.', 'gzip'),
        Vary: described('Accept-Encoding.', 'Accept-Encoding'),
      }),
      {
        operationId,
        tags,
        summary,
        description: `The bytes that the hashes of a tile of level 0 are made of. ${PATHS}`,
        params: Type.Object(params),
        security,
      },
    );
  return {
    logKey: route('logKey', text('A verifier key (C2SP signed-note).', examples.logKey), {
      operationId: 'getLogKey',
      tags,
      summary: 'The public key of the log',
      description:
        'Checkpoints and receipts are verified by it. Auditors get it from a person they trust, and compare.',
    }),
    checkpoint: route('checkpoint', text('A checkpoint (C2SP tlog-checkpoint).', examples.checkpoint), {
      operationId: 'getCheckpoint',
      tags,
      summary: 'Size and root of the log, signed',
      description:
        'With witnesses, the newest checkpoint that a quorum of them has signed, too; with `latest`, the newest one.',
      querystring: Type.Object({ latest: Type.Optional(Type.Enum(['', 'true'])) }),
      security,
    }),
    tile: tile('getTile', 'A full tile of the Merkle tree', { ...LEVEL, ...INDEX }),
    partialTile: tile('getPartialTile', 'The last tile of a level', { ...LEVEL, ...INDEX, ...WIDTH }),
    entries: entries('getEntries', 'The entries of a full tile', INDEX),
    partialEntries: entries('getPartialEntries', 'The entries of the last tile', { ...INDEX, ...WIDTH }),
    receipt: route(
      'receipt',
      text('An inclusion proof (C2SP tlog-proof), with the entry as extra data.', examples.receipt, {
        'Content-Disposition': described('A file name.', 'attachment; filename="receipt.tlog-proof"'),
      }),
      receipt,
    ),
  } satisfies Record<Route, object>;
}
