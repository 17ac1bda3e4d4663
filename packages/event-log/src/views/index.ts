export type { Problem } from '../eventStore.ts';
export { Follower, type Progress } from './follow.ts';
export { ReadYourWrites } from './readYourWrites.ts';
export { View } from './view.ts';
export { type ComparedView, ViewComparison } from './viewComparison.ts';
export {
  type Bookmark,
  type Difference,
  openForReading,
  type Row,
  readBookmark,
  readViewBookmark,
  type ViewDefinition,
} from './viewFile.ts';
export { viewLag } from './viewLag.ts';
export { REACHED_TIMEOUT_MS, ViewBehind } from './waiting.ts';
