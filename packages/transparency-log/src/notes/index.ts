export { openCheckpoint, readUnverifiedCheckpoint, type SignedCheckpoint } from './checkpoint.ts';
export { CheckpointFileUnusable, CheckpointSigner, LogContradictsCheckpoint } from './checkpointSigner.ts';
export { encodeHash } from './encoding.ts';
export { parseEntryBundle } from './entryBundle.ts';
export { loadExistingLogKey, loadLogKey } from './logKey.ts';
export { NotVerified } from './notVerified.ts';
export { printable } from './printable.ts';
export {
  formatInclusionProof,
  isConsistent,
  isInclusionProof,
  openInclusionProof,
  parseConsistencyProof,
} from './proof.ts';
export {
  formatVerifierKey,
  isKeyName,
  KEY_NAME_RULE,
  MAX_NOTE_BYTES,
  parseVerifierKey,
  type VerifierKey,
} from './signedNote.ts';
