export { CheckpointThread, type OpenFile } from './checkpointThread.ts';
export { createDataDir, DataDirInUse, databaseFile, lockDataDir, logFile } from './dataDir.ts';
export { lockDraft, removeDrafts } from './drafts.ts';
export { fileIdentity } from './fileIdentity.ts';
export { fsyncPath, syncDirectory } from './fsyncPath.ts';
export { moveToNew } from './moveToNew.ts';
export {
  DamagedFile,
  fileSize,
  hasSqliteCode,
  isSqliteError,
  openReadOnly,
  prepareArrays,
  SQLITE,
} from './sqlite.ts';
