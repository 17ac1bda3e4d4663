import { FAILURES, LEADER_CHANGES, openToInterrupt } from '@event-sourced/testing/interruptedReads';
import { interruptedReadsContract } from '../../packages/event-log/src/testing/contract.ts';

interruptedReadsContract('over EventStoreDB', openToInterrupt, { ...LEADER_CHANGES, ...FAILURES });
