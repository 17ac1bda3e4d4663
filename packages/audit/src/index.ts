export { audit } from './audit.ts';
export { auditErrors } from './auditErrors.ts';
export { auditMetrics } from './auditMetrics.ts';
export { auditPage } from './auditPage.ts';
export type { EntityType } from './entityType.ts';
export type { AuditOptions, Transparency } from './options.ts';
