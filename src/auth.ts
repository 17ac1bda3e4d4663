import { requireScope } from '@event-sourced/http';

/** The scope of tokens that may read every user's events. */
export const AUDIT_SCOPE = 'audit';

/** @throws InsufficientScope */
export const requireAuditScope = requireScope(AUDIT_SCOPE);
