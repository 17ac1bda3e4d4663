export { freeAddress } from './freeAddress.ts';
export { openFiles } from './openFiles.ts';
export { useProxyFromEnv } from './proxy.ts';
export { handleSignals, runUntilSignal } from './signals.ts';
