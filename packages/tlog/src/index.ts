export { sha256 } from '#crypto';
export { toBase64, toHex } from './bytes.ts';
export { entryLeafHash, leafHash, MerkleTree } from './merkle/merkleTree.ts';
export { type ProveConsistency, verifyConsistency } from './merkle/proofs.ts';
export {
  consistencyProofFromTiles,
  HASH_BYTES,
  leafHashes,
  parseTilePath,
  type ReadTile,
  rootFromTiles,
  TILE_WIDTH,
  type Tile,
  TileMismatch,
  type TileOrEntries,
  tileHashes,
  tilePath,
  tileRoot,
  tileWidth,
} from './merkle/tiles.ts';
export { type StoredTile, TileWriter } from './merkle/tileWriter.ts';
export { formatTreeHead, isSameHead, parseTreeHead, type TreeHead } from './merkle/treeHead.ts';
export { VerifiedTiles } from './merkle/verifiedTiles.ts';
export {
  type Checkpoint,
  EMPTY_TREE,
  keyOrigin,
  openCheckpoint,
  readUnverifiedCheckpoint,
} from './notes/checkpoint.ts';
export { decodeNumber, decodeTextFile, decodeUtf8, encodeHash } from './notes/encoding.ts';
export { formatDigestBundle, formatEntryBundle, parseEntryBundle } from './notes/entryBundle.ts';
export { NotVerified } from './notes/notVerified.ts';
export {
  formatConsistencyProof,
  formatInclusionProof,
  isInclusionProof,
  MAX_PROOF_BYTES,
  openConsistencyProof,
  openInclusionProof,
  parseConsistencyProof,
  proofCheckpoint,
} from './notes/proof.ts';
export { NotInTree, proveConsistency, proveInclusion } from './notes/prove.ts';
export {
  formatVerifierKey,
  isKeyName,
  KEY_NAME_RULE,
  MAX_NOTE_BYTES,
  parseLogKey,
  parseVerifierKey,
  type VerifierKey,
  verifierKey,
} from './notes/signedNote.ts';
export { readEntriesAfter } from './notes/verifiedEntries.ts';
