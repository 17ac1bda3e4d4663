export { CheckpointThread } from './checkpointThread.ts';
export { createDataDir, DataDirInUse, databaseFile, lockDataDir, logFile } from './dataDir.ts';
export { lockDraft, removeDrafts } from './drafts.ts';
