import pino from 'pino';
import { onTestFinished } from 'vitest';
import { HTTP_ERRORS } from '../src/errors.ts';
import { httpServer } from '../src/server.ts';

/** A server without routes, until the end of the test. */
export async function openServer(...corsOrigins: string[]) {
  const app = await httpServer({ logger: pino({ level: 'silent' }), corsOrigins, errors: HTTP_ERRORS });
  onTestFinished(() => app.close());
  return app;
}
