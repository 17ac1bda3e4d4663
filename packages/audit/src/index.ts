export { auditPageFiles } from './auditPage.ts';
