import swagger from '@fastify/swagger';
import type { FastifyBaseLogger } from 'fastify';
import type { Follower } from '../../projections/follow.ts';
import type { LogTree } from '../../projections/merkleTree/logTree.ts';
import type { ReadYourWrites } from '../../projections/readYourWrites.ts';
import type { Views } from '../../projections/views.ts';
import { CloudEvent } from '../audit/cloudEvent.ts';
import type { EventStore } from '../eventStore/eventStore.ts';
import { ErrorBody } from '../http/errors.ts';
import { publish } from '../http/openapi.ts';
import { limitRate, type RateLimit } from '../http/rateLimit.ts';
import type { ClosedRequest } from '../http/requestLog.ts';
import { httpServer } from '../http/server.ts';
import type { CheckpointRefusal, TokenRefusal } from '../metrics/metrics.ts';
import { auditPage } from '../pages/auditPage.ts';
import { Turns } from '../time/turns.ts';
import type { VerifyToken } from '../tokens/tokenVerifier.ts';
import type { CheckpointSigner } from '../transparency/checkpointSigner.ts';
import { apiReference } from './apiReference.ts';
import { authenticate } from './auth.ts';
import { Checkpoints } from './checkpoints.ts';
import { errorTable, tokenRefusal } from './errorTable.ts';
import { eventRoutes } from './eventRoutes.ts';
import { healthRoutes } from './health.ts';
import { InFlight } from './inFlight.ts';
import { openapi } from './openapi.ts';
import { NewPlant, Plant, plantRoutes } from './plantRoutes.ts';
import { transparencyRoutes } from './transparencyRoutes.ts';

export type Dependencies = {
  store: EventStore;
  views: Views;
  readYourWrites: ReadYourWrites;
  /** Of every view: /health/ready depends on all of them. */
  followers: readonly Follower[];
  /** The Merkle tree of the log, and what signs it; without them there are no routes for it. */
  transparency?: { tree: LogTree; signer: CheckpointSigner } | undefined;
  verifyToken: VerifyToken;
  corsOrigins: readonly string[];
  /** Whether there are pages for browsers. */
  pages: boolean;
  /** How many requests a user may send; without it, any number. */
  rateLimit?: RateLimit | undefined;
  /** The URI of this store, `source` of its CloudEvents. */
  source: string;
  logger: FastifyBaseLogger;
  now: () => Date;
  newEventId: (now: Date) => string;
  /** For metrics: what happens, and the lists and event streams in flight. */
  observer?: ApiObserver | undefined;
  listsInFlight?: InFlight;
  eventStreams?: InFlight;
};

/** Gets what happens in the API. It must not throw. */
export type ApiObserver = {
  onRequest(request: ClosedRequest): void;
  onTokenRefused(reason: TokenRefusal): void;
  /** Checkpoints begin to be refused, for this reason, or with undefined to be signed again. */
  onCheckpoints(refusal: CheckpointRefusal | undefined): void;
};

/** The HTTP API, complete but not listening. */
export async function buildApp(deps: Dependencies) {
  const {
    store,
    followers,
    transparency,
    verifyToken,
    corsOrigins,
    pages,
    rateLimit,
    source,
    logger,
    now,
    observer,
  } = deps;
  const { listsInFlight = new InFlight('lists'), eventStreams = new InFlight('event streams') } = deps;
  const turns = new Turns();
  const log = store.raw ?? store;
  const checkpoints =
    transparency &&
    new Checkpoints({
      ...transparency,
      log,
      logger,
      now,
      onRefusal: (refusal) => observer?.onCheckpoints(refusal),
    });
  const app = await httpServer({
    logger,
    corsOrigins,
    errorTable,
    onClosed: observer && ((request) => observer.onRequest(request)),
    onError: observer && ((error) => observeRefusal(observer, error)),
  });
  await app.register(swagger, openapi);
  for (const schema of [Plant, NewPlant, CloudEvent, ErrorBody]) app.addSchema(publish(schema));
  healthRoutes(app, { store, followers });
  let document: Buffer | undefined; // shared by all responses
  app.get('/openapi.json', { schema: { hide: true } }, async (_request, reply) => {
    document ??= Buffer.from(JSON.stringify(app.swagger()));
    return reply.type('application/json; charset=utf-8').send(document);
  });
  if (pages) {
    await app.register(apiReference);
    await app.register(auditPage);
  }
  await app.register(async (secured) => {
    await authenticate(secured, verifyToken);
    if (rateLimit) await limitRate(secured, rateLimit);
    await secured.register(plantRoutes, { ...deps, listsInFlight, turns });
    await secured.register(eventRoutes, { log, checkpoints, source, now, eventStreams, turns });
    if (!transparency || !checkpoints) return;
    const { tree, signer } = transparency;
    await secured.register(transparencyRoutes, { tree, log, checkpoints, logKey: signer.verifierKey, turns });
  });
  return app;
}

function observeRefusal(observer: ApiObserver, error: unknown): void {
  const reason = tokenRefusal(error);
  if (reason !== undefined) observer.onTokenRefused(reason);
}
