import { type TSchema, Type } from 'typebox';
import { IMMUTABLE, type TransparencyOptions } from './transparencyRoutes.ts';

type Route = keyof TransparencyOptions['schemas'];
type Headers = Record<string, TSchema>;

type Options = {
  errors: Record<Route, object>;
  /** A verifier key, a checkpoint and a receipt, as they are sent. */
  examples: Record<'logKey' | 'checkpoint' | 'receipt', string>;
  security: readonly { [scheme: string]: readonly string[] }[];
  /** What names an entry, and the rest of its description. */
  receipt: object;
};

const text = (description: string, example: string, headers: Headers = {}) => ({
  description,
  headers,
  content: { 'text/plain': { schema: Type.String(), example } },
});

const bytes = (description: string, headers: Headers = {}) => ({
  description,
  headers: { 'Cache-Control': Type.String({ description: `Always ${IMMUTABLE}.` }), ...headers },
  content: { 'application/octet-stream': { schema: Type.String({ format: 'binary' }) } },
});

/** How an OpenAPI document describes the routes. */
export function transparencySchemas({ errors, examples, security, receipt }: Options) {
  const route = (name: Route, success: object, rest: object) => ({
    ...rest,
    response: { 200: success, ...errors[name] },
  });
  const tags = ['audit'];
  return {
    logKey: route('logKey', text('A verifier key (C2SP signed-note).', examples.logKey), {
      operationId: 'getLogKey',
      tags,
      summary: 'The public key of the log, by which checkpoints and receipts are verified',
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
    tile: route('tile', bytes('Up to 256 hashes of 32 bytes.'), {
      operationId: 'getTile',
      tags,
      summary: 'A tile of the Merkle tree',
      security,
    }),
    entries: route(
      'entries',
      bytes('Up to 256 entries, each after its length in two bytes.', {
        'Content-Encoding': Type.String({ description: 'gzip, if the client accepts it.' }),
        Vary: Type.String({ description: 'Accept-Encoding.' }),
      }),
      {
        operationId: 'getEntries',
        tags,
        summary: 'The entries of a tile of level 0: the bytes that are hashed',
        security,
      },
    ),
    receipt: route(
      'receipt',
      text('An inclusion proof (C2SP tlog-proof), with the entry as extra data.', examples.receipt, {
        'Content-Disposition': Type.String({ description: 'A file name.' }),
      }),
      receipt,
    ),
  } satisfies Record<Route, object>;
}
