export { CheckpointThread } from './checkpointThread.ts';
export { createDataDir, DataDirInUse, databaseFile, lockDataDir, logFile } from './dataDir.ts';
export { lockDraft, removeDrafts } from './drafts.ts';
export { fsyncPath, syncDirectory } from './fsyncPath.ts';
export { moveToNew } from './moveToNew.ts';
export {
  DamagedFile,
  fileSize,
  hasSqliteCode,
  isSqliteError,
  prepareArrays,
  SQLITE,
} from './sqlite.ts';
