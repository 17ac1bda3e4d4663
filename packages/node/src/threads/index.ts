export { finish, isThreadFor, moduleBeside, serve, Thread, threadData } from './thread.ts';
