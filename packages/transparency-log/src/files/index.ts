export { loadOrCreateKey } from './keyFile.ts';
export { readCheckpointFile } from './stateFile.ts';
