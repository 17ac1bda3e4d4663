export { signCheckpoint, signNote, verifierKeyOf } from './signCheckpoint.ts';
