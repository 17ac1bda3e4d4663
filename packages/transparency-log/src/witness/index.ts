export { canVerify } from './cosignature.ts';
export { type Policy, parsePolicy } from './policy.ts';
