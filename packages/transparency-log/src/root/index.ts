export { appendLeaves } from './appendLeaves.ts';
export { SavedTree } from './savedTree.ts';
