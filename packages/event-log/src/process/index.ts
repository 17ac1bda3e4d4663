export { handleSignals } from './signals.ts';
