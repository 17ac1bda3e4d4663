export { assertReplaceable, copyLogFile } from './backup.ts';
export { checkLogFile } from './integrity.ts';
export { type LogReaderOptions, openLogReader } from './read.ts';
export { openSqliteStore } from './store.ts';
