export { moduleBeside, serve, Thread, threadData } from './thread.ts';
