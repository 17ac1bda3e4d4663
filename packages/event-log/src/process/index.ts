export { handleSignals, runUntilSignal } from './signals.ts';
