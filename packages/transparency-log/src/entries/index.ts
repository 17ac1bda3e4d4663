export { appendEntries, rootOfLog } from './appendEntries.ts';
export { issueReceipt, LogContradictsTree, recordAt } from './receipt.ts';
export { type Verification, verifyLog } from './verify.ts';
