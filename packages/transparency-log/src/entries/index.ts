export { appendLeaves, assertHasSize, rootOfLog } from './appendLeaves.ts';
export { cloudEventLeaf, cloudEventLeafHash, hashedAttributes } from './cloudEventLeaf.ts';
export { leafOf } from './leaf.ts';
export { readEntries } from './readEntries.ts';
export { issueReceipt, LogContradictsTree } from './receipt.ts';
export { type Verification, verifyLog } from './verify.ts';
