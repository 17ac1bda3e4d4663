export { fileIdentity } from './fileIdentity.ts';
export { acquireFileLock } from './fileLock.ts';
export { fsyncPath, syncDirectory } from './fsyncPath.ts';
export { type KeyFormat, type KeyPair, loadKey, loadOrCreateKey, UnusableKey } from './keyFile.ts';
export {
  assertWritable,
  DamagedFile,
  fileSize,
  isDamage,
  openReadOnly,
  prepareArrays,
  truncateWal,
} from './sqlite.ts';
export { hasSqliteCode, isSqliteError, SQLITE } from './sqliteCode.ts';
