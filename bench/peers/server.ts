import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox';
import Fastify, { LogController } from 'fastify';
import { jwtVerify } from 'jose';
import pino from 'pino';
import { type Static, Type } from 'typebox';
import { loadKey } from '../../packages/node/src/files/keyFile.ts';

// The plant store's two operations, with its tokens, validation and request log, as Fastify offers them.

declare module 'fastify' {
  interface FastifyRequest {
    user: string;
  }
}

const Plant = Type.Object({ name: Type.String(), tag: Type.Optional(Type.String()) });
const NewPlant = Type.Object({ id: Type.Integer(), ...Plant.properties });
const ListQuery = Type.Object({ limit: Type.String({ pattern: '^\\d{1,9}$' }) });
const Problem = Type.Object({ error: Type.Unknown(), message: Type.String() });
export type Plant = Static<typeof Plant>;
export type NewPlant = Static<typeof NewPlant>;

/** What differs from peer to peer. */
export type Store = {
  /** Returns once the plant is durable; false if the user has a plant with this ID. */
  create(user: string, plant: NewPlant): Promise<boolean> | boolean;
  /** The user's plants, oldest first. */
  list(user: string, limit: number): Promise<Plant[]> | Plant[];
};

/** Serves a store on PORT, to tokens signed with the key in KEY_FILE. */
export async function serve({ create, list }: Store): Promise<void> {
  const { publicKey } = loadKey(process.env.KEY_FILE ?? '');
  const verified = new Map<string, string>();
  const app = Fastify({
    loggerInstance: pino(
      { base: null, timestamp: pino.stdTimeFunctions.isoTime },
      pino.destination({ fd: 1, sync: false }),
    ),
    logController: new LogController({ disableRequestLogging: true }),
    ajv: { customOptions: { coerceTypes: false } },
  }).withTypeProvider<TypeBoxTypeProvider>();

  app.decorateRequest('user', '');
  app.addHook('onRequest', async (request, reply) => {
    const token = request.headers.authorization?.replace(/^Bearer /, '') ?? '';
    request.user = verified.get(token) ?? (await verify(token));
    if (request.user === '')
      return reply.code(401).send({ error: 40101, message: 'The token is not valid.' });
  });
  app.addHook('onResponse', async ({ user, method, url, log }, { statusCode, elapsedTime }) => {
    log.info({ user, method, path: url, status: statusCode, ms: elapsedTime }, 'request');
  });

  async function verify(token: string): Promise<string> {
    const required = { algorithms: ['EdDSA'], requiredClaims: ['sub', 'exp'] };
    const { payload } = await jwtVerify(token, publicKey, required).catch(() => ({ payload: { sub: '' } }));
    if (payload.sub) verified.set(token, payload.sub);
    return payload.sub ?? '';
  }

  app.post(
    '/plants',
    { schema: { body: NewPlant, response: { 200: Plant, 400: Problem } } },
    async ({ user, body }, reply) => {
      if (await create(user, body)) return body;
      return reply.code(400).send({ error: 40003, message: 'You have another plant with this id.' });
    },
  );
  app.get(
    '/plants',
    { schema: { querystring: ListQuery, response: { 200: Type.Array(Plant) } } },
    ({ user, query }) => list(user, Number(query.limit)),
  );
  await app.listen({ port: Number(process.env.PORT), host: '127.0.0.1' });
}
