export { type AuditOptions, audit } from './audit.ts';
export { auditErrors } from './auditErrors.ts';
export { auditPage } from './auditPage.ts';
export type { EntityType } from './entityType.ts';
