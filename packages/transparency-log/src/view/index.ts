export { MerkleTreeView, merkleTreeFile, readSavedHead } from './treeView.ts';
