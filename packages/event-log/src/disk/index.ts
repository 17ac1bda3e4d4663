export { createDataDir, DataDirInUse, databaseFile, lockDataDir, logFile } from './dataDir.ts';
export { lockDraft, removeDrafts } from './drafts.ts';
export { WalThread } from './walThread.ts';
