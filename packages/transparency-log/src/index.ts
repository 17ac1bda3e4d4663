// The core: it needs no database, files or event log. In browsers, the audit page replaces Node's `Buffer` and `hash`.

export { entryLeafHash, leafHash, MerkleTree } from './merkle/merkleTree.ts';
export { verifyConsistency } from './merkle/proofs.ts';
export {
  consistencyProofFromTiles,
  parseTilePath,
  rootFromTiles,
  type Tile,
  TileMismatch,
  type TileOrEntries,
  tileHashes,
  tilePath,
  tileRoot,
} from './merkle/tiles.ts';
export { formatTreeHead, isSameHead, parseTreeHead, type TreeHead } from './merkle/treeHead.ts';
export { VerifiedTiles } from './merkle/verifiedTiles.ts';
export { type Checkpoint, EMPTY_TREE, openCheckpoint, readUnverifiedCheckpoint } from './notes/checkpoint.ts';
export { decodeTextFile, encodeHash } from './notes/encoding.ts';
export { formatDigestBundle, parseEntryBundle } from './notes/entryBundle.ts';
export { NotVerified } from './notes/notVerified.ts';
export { printable } from './notes/printable.ts';
export {
  formatInclusionProof,
  isInclusionProof,
  MAX_PROOF_BYTES,
  openConsistencyProof,
  openInclusionProof,
  parseConsistencyProof,
} from './notes/proof.ts';
export { NotInTree, proveConsistency, proveInclusion } from './notes/prove.ts';
export {
  formatVerifierKey,
  isKeyName,
  KEY_NAME_RULE,
  parseVerifierKey,
  type VerifierKey,
} from './notes/signedNote.ts';
export { readEntriesAfter } from './notes/verifiedEntries.ts';
