export { signCheckpoint, signNote, toVerifierKey } from './signCheckpoint.ts';
