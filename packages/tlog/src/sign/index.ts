export { signCheckpoint, toVerifierKey } from './signCheckpoint.ts';
