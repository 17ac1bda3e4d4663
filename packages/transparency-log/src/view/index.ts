export { TreeFile } from './treeFile.ts';
export { MerkleTreeView, merkleTreeFile } from './treeView.ts';
