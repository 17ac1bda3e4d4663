export { freeAddress } from './freeAddress.ts';
export { openFilesLimit } from './openFilesLimit.ts';
export { useProxyFromEnv } from './proxy.ts';
export { handleSignals, runUntilSignal } from './signals.ts';
