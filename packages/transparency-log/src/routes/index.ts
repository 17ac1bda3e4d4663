export { type CheckpointRefusal, Checkpoints, NotYetCosigned } from './checkpoints.ts';
export { NoSuchTile, type TransparencyOptions, transparencyRoutes } from './transparencyRoutes.ts';
export { transparencySchemas } from './transparencySchemas.ts';
