export { failureReason, readAtMost } from './response.ts';
