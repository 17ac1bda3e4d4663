export { CheckpointFileUnusable, CheckpointSigner, LogContradictsCheckpoint } from './checkpointSigner.ts';
export { type CheckpointObserver, Checkpoints, NotYetCosigned } from './checkpoints.ts';
export { loadExistingLogKey, loadLogKey } from './logKey.ts';
export { CHECKPOINT_REFUSALS } from './refusals.ts';
