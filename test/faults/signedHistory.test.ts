import { describe } from 'vitest';
import { CASES, openEventStoreDbLog, testSignedHistory } from '../support/signedHistory.ts';

describe('over EventStoreDB', () => testSignedHistory(openEventStoreDbLog, CASES.slice(0, 3)));
