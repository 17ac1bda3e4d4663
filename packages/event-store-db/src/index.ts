export { AccessDenied } from './client.ts';
export { CONNECTION_STRING } from './protocol.ts';
export { openEventStoreDb } from './store.ts';
