import { fileURLToPath } from 'node:url';
import { auditPageFiles } from '@event-sourced/audit-page';
import type { EventStore } from '@event-sourced/event-log';
import { FairQueue } from '@event-sourced/event-log/time';
import type { Follower, ReadYourWrites } from '@event-sourced/event-log/views';
import {
  apiReference,
  authenticate,
  healthRoutes,
  httpServer,
  limitRate,
  type ServerObserver,
  serveOpenapi,
  servePage,
  traceparentOf,
} from '@event-sourced/http';
import type { VerifyToken } from '@event-sourced/http/tokens';
import {
  type CheckpointRefusal,
  Checkpoints,
  transparencyRoutes,
} from '@event-sourced/transparency-log/routes';
import type { CheckpointSigner, WitnessObserver } from '@event-sourced/transparency-log/signer';
import type { MerkleTreeView } from '@event-sourced/transparency-log/view';
import type { FastifyBaseLogger } from 'fastify';
import type { Views } from '../projections/views.ts';
import { auditRoutes } from './auditRoutes.ts';
import type { Config } from './config.ts';
import { API_ERRORS } from './errors.ts';
import { InFlight } from './inFlight.ts';
import { API, errorsOf, tooManyInFlight } from './openapi.ts';
import { domain } from './plants/auditPageDomain.ts';
import { plantRoutes } from './plants/routes.ts';
import { isUser } from './plants/user.ts';
import { transparencyOptions } from './transparencyOptions.ts';

const DOMAIN_MODULE = fileURLToPath(import.meta.resolve('./plants/auditPageDomain.ts'));

export type Dependencies = Pick<Config, 'corsOrigins' | 'pages' | 'rateLimit' | 'source'> &
  Partial<Pick<Config, 'maxConnections' | 'witnesses'>> & {
    store: EventStore;
    views: Views;
    readYourWrites: ReadYourWrites;
    /** Of every view: /health/ready depends on all of them. */
    followers: readonly Follower[];
    /** The Merkle tree of the log, and what signs it; without them there are no routes for it. */
    transparency?: { tree: Follower<MerkleTreeView>; signer: CheckpointSigner } | undefined;
    verifyToken: VerifyToken;
    logger: FastifyBaseLogger;
    now: () => Date;
    newEventId: (now: Date) => string;
    /** For metrics: what happens, and the lists and event streams in flight. */
    observer?:
      | (ServerObserver &
          Partial<WitnessObserver> & { onCheckpoints(refusal: CheckpointRefusal | undefined): void })
      | undefined;
    listsInFlight?: InFlight;
    eventStreams?: InFlight;
  };

/** The HTTP API, complete but not listening. */
export async function buildApp(deps: Dependencies) {
  const { store, followers, transparency, verifyToken, rateLimit, logger, now, observer } = deps;
  const { listsInFlight = new InFlight('lists'), eventStreams = new InFlight('event streams') } = deps;
  const fairQueue = new FairQueue();
  const log = store.raw ?? store;
  const checkpoints =
    transparency &&
    new Checkpoints({
      ...transparency,
      log,
      logger,
      now,
      onRefusal: (refusal) => observer?.onCheckpoints(refusal),
      witnesses: deps.witnesses && { policy: deps.witnesses, observer },
    });
  const app = await httpServer({
    logger,
    corsOrigins: deps.corsOrigins,
    corsFields: {
      allowed: ['Authorization', 'Content-Type', 'Last-Event-ID', 'Log-Position', 'Traceparent'],
      exposed: ['Checkpoint', 'Content-Disposition', 'Link', 'Log-Position'],
    },
    errors: API_ERRORS,
    maxConnections: deps.maxConnections,
    observer,
  });
  // Ready: every view can be read, and the log accepts appends.
  healthRoutes(app, () => {
    const { appendsRefused } = store;
    const entry = appendsRefused === undefined ? API_ERRORS.viewBehind : API_ERRORS.storeUnavailable;
    const reasons = [appendsRefused, ...followers.map(({ notReady }) => notReady)];
    return { entry, reasons: reasons.filter((reason) => reason !== undefined) };
  });
  await serveOpenapi(app, API);
  if (deps.pages) {
    await apiReference(app, API.info);
    await servePage(app, { path: '/audit', readFiles: () => auditPageFiles(domain, DOMAIN_MODULE) });
  }
  await app.register(async (secured) => {
    await authenticate(secured, { verifyToken, isUser });
    if (rateLimit) limitRate(secured, rateLimit);
    await secured.register(plantRoutes, {
      ...deps,
      listsInFlight,
      traceparentOf,
      fairQueue,
      errorsOf: (errors, headers) =>
        errorsOf(
          errors.map((name) => (name === 'tooManyInFlight' ? tooManyInFlight('lists') : name)),
          headers,
        ),
    });
    await secured.register(auditRoutes, {
      log,
      checkpoints,
      source: deps.source,
      now,
      eventStreams,
      fairQueue,
    });
    if (!transparency || !checkpoints) return;
    const { tree, signer } = transparency;
    const logKey = signer.verifierKey;
    const options = transparencyOptions(log, fairQueue);
    await secured.register(transparencyRoutes, { tree, log, checkpoints, logKey, ...options });
  });
  return app;
}
