export { CONNECTION_STRING } from './protocol.ts';
export { AccessDenied } from './retryingClient.ts';
export { openEventStoreDb } from './store.ts';
