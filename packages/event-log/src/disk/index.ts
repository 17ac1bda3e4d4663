export { createDataDir, DataDirInUse, databaseFile, lockDataDir, logFile } from './dataDir.ts';
export { makeDraft, removeDrafts, takeDraft } from './drafts.ts';
export { WalThread } from './walThread.ts';
