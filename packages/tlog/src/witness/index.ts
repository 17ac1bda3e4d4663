export { type Cosignature, type CosignedCheckpoint, canVerify, verifyCosignatures } from './cosignature.ts';
export {
  countCosignatures,
  MAX_CLOCK_DIFFERENCE_MS,
  openPolicy,
  type Policy,
  type PolicyOptions,
  type PolicyWitness,
  parsePolicy,
  quorumTime,
} from './policy.ts';
export { parseHttpUrl, URL_RULE } from './url.ts';
