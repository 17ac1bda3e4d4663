export { type LogHead, MerkleTreeView } from './treeView.ts';
