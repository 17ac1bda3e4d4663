export { appendLeaves } from './appendLeaves.ts';
export { hashedAttributes, leafOfCloudEvent } from './cloudEventLeaf.ts';
export { type Claim, proofFromLog, rootOfLog } from './proof.ts';
export { readEntries } from './readEntries.ts';
export { LogContradictsTree, receiptOf } from './receipt.ts';
export { type Verification, verifyLog } from './verify.ts';
