export { type Cosignature, canVerify, cosign, verifyCosignatures } from './cosignature.ts';
export { WitnessStateUnusable } from './cosignedCheckpointFile.ts';
export { type Policy, parsePolicy, quorumTime } from './policy.ts';
export { CheckpointRejected, Witness } from './witness.ts';
export { runWitness, type WitnessCommandOptions } from './witnessCommand.ts';
export { startWitnessServer } from './witnessServer.ts';
