export { issueToken } from './issueToken.ts';
export {
  NotAKeySet,
  PROVIDER_ALGORITHMS,
  type ProviderKeys,
  providerKeys,
  tokenVerifier,
  type VerifyToken,
} from './tokenVerifier.ts';
