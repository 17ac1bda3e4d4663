import type { Follower } from '@event-sourced/event-log/views';
import type { Metrics } from '@event-sourced/http/metrics';
import { CHECKPOINT_REFUSALS, type CheckpointObserver } from '@event-sourced/transparency-log/signer';
import type { MerkleTreeView } from '@event-sourced/transparency-log/view';

/** Adds the metrics of the tree, its checkpoints and its witnesses; missing ones have no value. */
export function auditMetrics(
  metrics: Metrics,
  tree: Pick<Follower<MerkleTreeView>, 'view' | 'failures'> | undefined,
): CheckpointObserver {
  metrics.measure('merkle_tree_size', 'Leaves of the Merkle tree.', () => tree?.view.head.size);
  metrics.measure(
    'merkle_tree_failures_total',
    'Retried failures of the Merkle tree to follow the log.',
    () => tree?.failures,
    'counter',
  );
  const refused = metrics.gauge(
    'checkpoints_refused',
    '1 if the last checkpoint could not be signed, for this reason.',
    ['reason'],
  );
  const cosignedSize = metrics.gauge(
    'cosigned_size',
    'Size of the newest checkpoint that a quorum has cosigned.',
  );
  const cosignedAt = metrics.gauge(
    'cosigned_timestamp_seconds',
    'Time of the quorum for the newest cosigned checkpoint, in seconds since 1970.',
  );
  const witnessSize = metrics.gauge(
    'witness_size',
    'Size of the last checkpoint that the witness cosigned.',
    ['witness'],
  );
  const witnessAt = metrics.gauge(
    'witness_timestamp_seconds',
    'Time of the last cosignature of the witness, in seconds since 1970.',
    ['witness'],
  );
  const witnessFailures = metrics.counter(
    'witness_failures_total',
    'Requests to the witness without a cosignature.',
    ['witness'],
  );
  for (const gauge of [cosignedSize, cosignedAt]) gauge.remove(); // without witnesses
  const observer: CheckpointObserver = {
    onRefusal(refusal) {
      for (const reason of CHECKPOINT_REFUSALS) refused.set({ reason }, Number(reason === refusal));
    },
    onCosignature(witness, size, time) {
      witnessSize.set({ witness }, size);
      witnessAt.set({ witness }, time);
    },
    onWitnessFailure: (witness) => witnessFailures.inc({ witness }),
    onQuorum(size, time) {
      cosignedSize.set(size);
      cosignedAt.set(time);
    },
  };
  observer.onRefusal(undefined);
  return observer;
}
