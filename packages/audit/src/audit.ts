import type { EventLog } from '@event-sourced/event-log';
import type { CloudEvent } from '@event-sourced/event-log/replay';
import type { FairQueue } from '@event-sourced/event-log/time';
import type { Follower } from '@event-sourced/event-log/views';
import type { HTTP_ERRORS, tokenErrors } from '@event-sourced/http';
import type { Metrics } from '@event-sourced/http/metrics';
import { type CheckpointSigner, Checkpoints } from '@event-sourced/transparency-log/signer';
import type { MerkleTreeView } from '@event-sourced/transparency-log/view';
import type { Policy } from '@event-sourced/transparency-log/witness';
import type { FastifyPluginAsync } from 'fastify';
import type { auditErrors } from './auditErrors.ts';
import { auditMetrics } from './auditMetrics.ts';
import type { EntityType } from './entityType.ts';
import { checkpointRoutes } from './routes/checkpointRoutes.ts';
import { eventRoute } from './routes/eventRoute.ts';
import { histogramRoute } from './routes/histogramRoute.ts';
import { receiptRoute } from './routes/receiptRoute.ts';
import { tileRoutes } from './routes/tileRoutes.ts';

export type AuditOptions = {
  /** The log for hashing. */
  log: EventLog;
  /** The URI of the log: the `source` of its CloudEvents. */
  source: string;
  /** The Merkle tree of the log, and the signer of its checkpoints; without them, their routes do not exist. */
  transparency?: { tree: Follower<MerkleTreeView>; signer: CheckpointSigner } | undefined;
  /** The witnesses that cosign checkpoints; without a policy, none cosigns. */
  witnesses?: Policy | undefined;
  entityType: EntityType;
  /** Examples for the OpenAPI document: an event, the key of a log with this event, and its checkpoint. */
  examples: { event: CloudEvent; logKey: string; checkpoint: string };
  /** The error entries of the app. */
  errors: typeof HTTP_ERRORS & ReturnType<typeof tokenErrors> & ReturnType<typeof auditErrors>;
  fairQueue: FairQueue;
  now: () => Date;
  metrics?: Metrics | undefined;
};

/** The options of the routes that need the tree. */
export type TreeOptions = AuditOptions & { tree: Follower<MerkleTreeView>; checkpoints: Checkpoints };

/**
 * The routes for auditors: events and, if the log has a Merkle tree, checkpoints, tiles, entries and receipts. Earlier
 * hooks of the context must authenticate.
 */
export const audit: FastifyPluginAsync<AuditOptions> = async (app, options) => {
  const { transparency, metrics } = options;
  const observer = metrics && auditMetrics(metrics, transparency?.tree);
  histogramRoute(app, options);
  if (!transparency) return eventRoute(app, options);
  const { tree, signer } = transparency;
  const checkpoints = new Checkpoints({ ...options, tree, signer, logger: app.log, observer });
  app.addHook('onClose', () => checkpoints.close());
  eventRoute(app, options, checkpoints);
  const withTree = { ...options, tree, checkpoints };
  checkpointRoutes(app, withTree, signer.verifierKey);
  tileRoutes(app, withTree);
  receiptRoute(app, withTree);
};
