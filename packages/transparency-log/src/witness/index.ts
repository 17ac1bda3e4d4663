export { type Cosignature, canVerify, cosign, cosignaturesOf } from './cosignature.ts';
export { type Policy, parsePolicy, quorumTime, type Witness } from './policy.ts';
