export { loadOrCreateKey } from './keyFile.ts';
