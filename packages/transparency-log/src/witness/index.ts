export { canVerify } from './cosignature.ts';
export { parsePolicy } from './policy.ts';
