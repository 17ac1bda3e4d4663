export { readCheckpointFile, readIfExists, readStateFile, replaceFile, replacePath } from './stateFile.ts';
