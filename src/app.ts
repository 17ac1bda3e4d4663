import bearerAuth from '@fastify/bearer-auth';
import swagger from '@fastify/swagger';
import type { FastifyBaseLogger } from 'fastify';
import type { Follower } from '../projections/follow.ts';
import type { PlantsByUser } from '../projections/plantsByUser.ts';
import { CloudEvent } from './audit/cloudEvent.ts';
import { eventRoutes } from './audit/eventRoutes.ts';
import type { EventStore } from './eventStore/eventStore.ts';
import { ErrorBody, NUMBERS } from './http/errors.ts';
import { openapi, published } from './http/openapi.ts';
import { httpServer } from './http/server.ts';
import { NewPlant, Plant, plantRoutes } from './plants/routes.ts';
import type { VerifyToken } from './tokens/tokenVerifier.ts';

export type Dependencies = {
  store: EventStore;
  view: PlantsByUser;
  follower: Follower;
  verifyToken: VerifyToken;
  corsOrigins: readonly string[];
  /** The URI of this store in the events it gives away. */
  source: string;
  log: FastifyBaseLogger;
  now: () => Date;
  newId: () => string;
};

/** The HTTP side, whole but not listening: what needs no token, and behind the token the plants. */
export async function buildApp({ verifyToken, corsOrigins, source, log, follower, ...plants }: Dependencies) {
  const app = await httpServer(log, corsOrigins);

  await app.register(swagger, openapi);
  for (const schema of [Plant, NewPlant, CloudEvent, ErrorBody]) app.addSchema(published(schema));
  app.get('/health/live', { schema: { hide: true } }, async () => ({ status: 'live' }));
  app.get('/health/ready', { schema: { hide: true } }, async (_request, reply) => {
    const reason = follower.notReady();
    if (reason === undefined) return { status: 'ready' };
    reply.code(503).header('retry-after', '1');
    return { error: NUMBERS.viewBehind, message: reason };
  });
  app.get('/openapi.json', { schema: { hide: true } }, async () => app.swagger());

  await app.register(async (secured) => {
    await secured.register(bearerAuth, {
      keys: new Set<string>(),
      addHook: false,
      specCompliance: 'rfc6749',
      verifyErrorLogLevel: 'debug',
      auth: async (token, request) => {
        request.identify = () => verifyToken(token);
        request.user = (await request.identify()).user;
        return true;
      },
    });
    secured.addHook('onRequest', secured.verifyBearerAuth as NonNullable<typeof secured.verifyBearerAuth>);
    await secured.register(plantRoutes, { ...plants, follower });
    await secured.register(eventRoutes, { log: plants.store, source, now: plants.now });
  });

  return app;
}
