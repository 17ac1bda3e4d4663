export { CheckpointFiles, CheckpointFileUnusable, signedFiles } from './checkpointFiles.ts';
export { CHECKPOINT_REFUSALS, type CheckpointObserver, Checkpoints, NotYetCosigned } from './checkpoints.ts';
export { assertExtends, LogContradictsCheckpoint } from './contradiction.ts';
export { type LogKey, loadExistingLogKey, loadLogKey } from './logKey.ts';
