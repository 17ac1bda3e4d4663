export { SavedTree } from './savedTree.ts';
export { type LogHead, MerkleTreeView } from './treeView.ts';
