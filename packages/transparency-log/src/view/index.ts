export { SavedTree } from './savedTree.ts';
export { MerkleTreeView, merkleTreeFile } from './treeView.ts';
