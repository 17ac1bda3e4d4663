export { freePort, listenOn } from './ownPort.ts';
