export { hashedAttributes, leafOfCloudEvent } from './cloudEventLeaf.ts';
export { type Claim, proofFromLog, rootOfLog } from './proof.ts';
export { LogContradictsTree } from './receipt.ts';
export { type ComparedView, type ViewToCompare, verifyLog } from './verify.ts';
