export { freeAddress } from './freeAddress.ts';
export { useProxyOfEnv } from './proxy.ts';
export { handleSignals, runUntilSignal } from './signals.ts';
