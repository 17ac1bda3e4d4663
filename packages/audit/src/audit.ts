import type { FastifyInstance } from 'fastify';
import fastifyPlugin from 'fastify-plugin';
import type { AuditOptions } from './options.ts';
import { checkpointRoutes } from './routes/checkpointRoutes.ts';
import { eventRoute } from './routes/eventRoute.ts';
import { histogramRoute } from './routes/histogramRoute.ts';
import { receiptRoutes } from './routes/receiptRoutes.ts';
import { tileRoutes } from './routes/tileRoutes.ts';

/**
 * The routes for auditors: events and, if the log has a Merkle tree, checkpoints, tiles, entries and receipts. Earlier
 * hooks of the context authenticate, as `authenticate` of `http` does.
 */
export const audit = fastifyPlugin(addRoutes, {
  name: '@event-sourced/audit',
  fastify: '5.x',
  decorators: { request: ['user', 'verifyToken'] },
  dependencies: ['@event-sourced/http'],
  encapsulate: true,
});

async function addRoutes(app: FastifyInstance, options: AuditOptions): Promise<void> {
  const { transparency } = options;
  histogramRoute(app, options);
  eventRoute(app, options);
  if (!transparency) return;
  const withTree = { ...options, ...transparency };
  checkpointRoutes(app, withTree);
  tileRoutes(app, withTree);
  receiptRoutes(app, withTree);
}
