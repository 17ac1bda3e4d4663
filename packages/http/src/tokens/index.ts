export { issueToken } from './issueToken.ts';
export { PROVIDER_ALGORITHMS, providerKeys, tokenVerifier, type VerifyToken } from './tokenVerifier.ts';
