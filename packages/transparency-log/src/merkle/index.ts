export { leafHash, MerkleTree } from './merkleTree.ts';
export { consistencyProofFromTiles, TILE_WIDTH, tilePath, tileWidth } from './tiles.ts';
export { formatTreeHead, parseTreeHead, type TreeHead } from './treeHead.ts';
