import { interruptedReadsContract } from '../eventStore/contract.ts';
import { FAILURES, openOnFake } from '../support/interruptedReads.ts';

interruptedReadsContract('over EventStoreDB', openOnFake({}), FAILURES);
