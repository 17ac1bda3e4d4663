export { Follower, type Progress } from './follow.ts';
export { ReadYourWrites } from './readYourWrites.ts';
export { rebuildView } from './rebuildView.ts';
export type { Rows, Table } from './table.ts';
export { TableView, type ViewDefinition } from './tableView.ts';
export { View } from './view.ts';
export { type ComparedView, type Problem, ViewComparison } from './viewComparison.ts';
export {
  type Checkpointer,
  NO_CHECKPOINT,
  readViewCheckpoint,
  type ViewCheckpoint,
  type ViewFormat,
} from './viewFile.ts';
export { viewLag } from './viewLag.ts';
export { REACHED_TIMEOUT_MS, ViewBehind, Waiting } from './waiting.ts';
