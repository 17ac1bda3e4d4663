export { traceAppend } from './spans.ts';
