import { interruptedReadsContract } from '../../packages/event-log/src/testing/contract.ts';
import { FAILURES, openOnFake } from '../support/interruptedReads.ts';

interruptedReadsContract('over EventStoreDB', openOnFake, FAILURES);
