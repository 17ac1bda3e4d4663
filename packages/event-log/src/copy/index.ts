export { copyLog } from './copyLog.ts';
