export { CheckpointFileUnusable, CheckpointSigner, LogContradictsCheckpoint } from './checkpointSigner.ts';
export { loadExistingLogKey, loadLogKey } from './logKey.ts';
