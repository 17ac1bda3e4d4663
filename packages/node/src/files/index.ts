export { fileIdentity } from './fileIdentity.ts';
export { acquireFileLock } from './fileLock.ts';
export { fsyncPath, syncDirectory } from './fsyncPath.ts';
export { type KeyFormat, type KeyPair, loadKey, loadOrCreateKey, UnusableKey } from './keyFile.ts';
export {
  assertWritable,
  DamagedFile,
  fileSize,
  hasSqliteCode,
  isDamage,
  isSqliteError,
  openReadOnly,
  prepareArrays,
  SQLITE,
  truncateWal,
} from './sqlite.ts';
