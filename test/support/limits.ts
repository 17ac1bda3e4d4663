import { MAX_IN_FLIGHT } from '../../packages/audit/src/limits.ts';
import { MAX_LISTS_IN_FLIGHT } from '../../src/errors.ts';

/** How many responses of a kind a user may have in flight. */
export const LIMITS = { lists: MAX_LISTS_IN_FLIGHT, ...MAX_IN_FLIGHT };
