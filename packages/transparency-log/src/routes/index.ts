export { type CheckpointRefusal, Checkpoints } from './checkpoints.ts';
export { IMMUTABLE, NoSuchTile, type TransparencyOptions, transparencyRoutes } from './transparencyRoutes.ts';
