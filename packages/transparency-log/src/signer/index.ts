export { CheckpointFileUnusable, CheckpointSigner, LogContradictsCheckpoint } from './checkpointSigner.ts';
export { CHECKPOINT_REFUSALS, type CheckpointObserver, Checkpoints, NotYetCosigned } from './checkpoints.ts';
export { loadExistingLogKey, loadLogKey } from './logKey.ts';
