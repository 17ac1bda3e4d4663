export {
  event,
  eventStoreContract,
  everything,
  type Interrupted,
  interruptedReadsContract,
  type Open,
  STREAM_PREFIX,
} from './contract.ts';
