export { TreeThread } from './treeThread.ts';
export { MerkleTreeView } from './treeView.ts';
