export { type Drop, FakeEventStoreDb, FakeLog, type FakeOptions } from './server.ts';
