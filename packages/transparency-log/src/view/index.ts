export { caughtUp } from './caughtUp.ts';
export { readSavedHead, SavedTree } from './savedTree.ts';
export { type LogHead, MerkleTreeView } from './treeView.ts';
