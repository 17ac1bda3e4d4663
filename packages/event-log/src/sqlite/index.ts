export { copyDatabase } from './backup.ts';
export { checkLogFile } from './integrity.ts';
export { LogBackup } from './logBackup.ts';
export { type LogReaderOptions, openLogReader } from './read.ts';
export { openSqliteStore } from './store.ts';
