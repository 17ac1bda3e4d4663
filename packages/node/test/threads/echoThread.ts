import { parentPort } from 'node:worker_threads';
import { serve, threadData } from '../../src/threads/thread.ts';

// As under `node --watch`, where each thread posts the names of its modules on the same port.
parentPort?.postMessage({ 'watch:import': ['file:///module.ts'] });

const send: (event: unknown) => void = serve(
  {
    echo: (value: unknown) => value,
    async later(value: unknown) {
      await new Promise((resolve) => setTimeout(resolve, 20));
      return value;
    },
    fail(message: string): void {
      throw new TypeError(message);
    },
    exit: (code: number): void => process.exit(code),
    announce: (value: unknown): void => send(value),
    close: () => send('closed'),
  },
  threadData<string>(),
);
