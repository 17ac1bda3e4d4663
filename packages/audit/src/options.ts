import type { EventLog } from '@event-sourced/event-log';
import type { CloudEvent } from '@event-sourced/event-log/replay';
import type { Follower } from '@event-sourced/event-log/views';
import type { HTTP_ERRORS, tokenErrors } from '@event-sourced/http';
import type { Metrics } from '@event-sourced/http/metrics';
import type { FairQueue } from '@event-sourced/node/time';
import type { VerifierKey } from '@event-sourced/tlog';
import type { Checkpoints } from '@event-sourced/transparency-log/signer';
import type { MerkleTreeView } from '@event-sourced/transparency-log/view';
import type { auditErrors } from './auditErrors.ts';
import type { EntityType } from './entityType.ts';

export type AuditOptions = {
  /** The log for hashing. */
  log: EventLog;
  /** The URI of the log: the `source` of its CloudEvents. */
  source: string;
  /** The Merkle tree of the log and its checkpoints; without them, their routes do not exist. */
  transparency?: Transparency | undefined;
  entityType: EntityType;
  /** Examples for the OpenAPI document: an event, the key of a log with this event, and its checkpoint. */
  examples: { event: CloudEvent; logKey: string; checkpoint: string };
  /** The error entries of the app. */
  errors: typeof HTTP_ERRORS & ReturnType<typeof tokenErrors> & ReturnType<typeof auditErrors>;
  fairQueue: FairQueue;
  now: () => Date;
  metrics?: Metrics | undefined;
};

/** `verifierKey` verifies the checkpoints. */
export type Transparency = {
  tree: Follower<MerkleTreeView>;
  checkpoints: Checkpoints;
  verifierKey: VerifierKey;
};

/** The options of the routes that need the tree. */
export type TreeOptions = AuditOptions & Transparency;
