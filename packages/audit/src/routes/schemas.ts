import { requireScope } from '@event-sourced/http';
import { type TSchema, Type } from 'typebox';

/** The scope of tokens that may read every user's events. */
export const AUDIT_SCOPE = 'audit';
/** The scope of tokens that may read the tree, which has no content; audit includes it. */
export const MONITOR_SCOPE = 'monitor';

// They run before validation, so that callers without the scope learn nothing.

export const requireAuditScope = requireScope(AUDIT_SCOPE);
export const requireMonitorScope = requireScope(MONITOR_SCOPE, AUDIT_SCOPE);

// Parts of the routes' descriptions in the OpenAPI document.

type Headers = Record<string, TSchema>;

export const FOR_AUDITORS = { tags: ['audit'], security: [{ bearer: [AUDIT_SCOPE] }] };
export const FOR_MONITORS = {
  tags: ['audit'],
  security: [{ bearer: [MONITOR_SCOPE] }, { bearer: [AUDIT_SCOPE] }],
};

export const TEXT = 'text/plain';

export const described = (description: string, ...examples: [] | [string]) =>
  Type.String({ description, examples });

/** A response of text. */
export const text = (description: string, example: string, headers: Headers = {}) => ({
  description,
  headers,
  content: { 'text/plain': { schema: Type.String(), example } },
});
