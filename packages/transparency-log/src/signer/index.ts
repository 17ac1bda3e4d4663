export { CheckpointFileUnusable, CheckpointSigner, LogContradictsCheckpoint } from './checkpointSigner.ts';
export type { WitnessObserver } from './cosigning.ts';
export { loadExistingLogKey, loadLogKey } from './logKey.ts';
