import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { invalidTokenLogger } from '../src/invalidTokenLogger.ts';
import { InvalidToken } from '../src/tokens/tokenVerifier.ts';

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

test('each reason is logged once a minute', () => {
  const logger = { warn: vi.fn() };
  const log = invalidTokenLogger();
  const [issuer, audience] = ['"iss" is wrong', '"aud" is missing'].map((why) => new InvalidToken('', why));
  const tokens = [issuer, audience, issuer, audience] as InvalidToken[];
  for (const token of tokens) log(logger, token);
  vi.advanceTimersByTime(59_999);
  for (const token of tokens) log(logger, token);
  expect(logger.warn.mock.calls).toEqual([
    [{ reason: '"iss" is wrong' }, 'token refused'],
    [{ reason: '"aud" is missing' }, 'token refused'],
  ]);
  vi.advanceTimersByTime(1);
  for (const token of tokens) log(logger, token);
  expect(logger.warn).toHaveBeenCalledTimes(4);
});
