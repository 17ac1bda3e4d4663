export { Follower, type Progress } from './follow.ts';
export { ReadYourWrites } from './readYourWrites.ts';
export { rebuildView } from './rebuildView.ts';
export type { Rows, Table } from './table.ts';
export { comparedTable } from './tableDraft.ts';
export { TableView, type ViewDefinition } from './tableView.ts';
export { UnsavedRows } from './unsavedRows.ts';
export { NO_CHECKPOINT, type View, type ViewCheckpoint, ViewDamaged } from './view.ts';
export { type ComparedFormat, type Problem, ViewComparison } from './viewComparison.ts';
export {
  insertEach,
  isDamage,
  openViewReader,
  readCheckpoint,
  type SavedRow,
  type ViewFormat,
} from './viewDatabase.ts';
export { ViewFile } from './viewFile.ts';
export { ViewLag } from './viewLag.ts';
export { ViewWriter } from './viewWriter.ts';
export { REACHED_TIMEOUT_MS, ViewBehind, Waiting } from './waiting.ts';
