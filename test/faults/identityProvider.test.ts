import { afterEach, beforeEach, test, vi } from 'vitest';
import { expectOutageBridged, signingKey } from '../support/identityProvider.ts';

// The tests advance the date; timers and sockets keep real time.
beforeEach(() => void vi.useFakeTimers({ toFake: ['Date'] }));
afterEach(() => void vi.useRealTimers());

test('while the identity provider never responds, verified tokens are accepted and others are 503', async () =>
  expectOutageBridged(await signingKey('RS256'), () => {}));
