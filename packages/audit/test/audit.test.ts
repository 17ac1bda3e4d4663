import { HTTP_ERRORS, httpServer } from '@event-sourced/http';
import Fastify from 'fastify';
import pino from 'pino';
import { expect, onTestFinished, test } from 'vitest';
import { audit } from '../src/audit.ts';
import type { AuditOptions } from '../src/options.ts';

const OPTIONS = {} as AuditOptions;

test('the routes of auditors refuse an app that does not authenticate, or has no http', async () => {
  const logger = pino({ level: 'silent' });
  const app = await httpServer({ logger, corsOrigins: [], errors: HTTP_ERRORS });
  onTestFinished(() => app.close());
  await expect(app.register(audit, OPTIONS)).rejects.toThrow("'verifyToken'");
  const other = Fastify();
  onTestFinished(() => other.close());
  for (const name of ['user', 'verifyToken']) other.decorateRequest(name);
  await expect(other.register(audit, OPTIONS)).rejects.toThrow('@event-sourced/http');
});
