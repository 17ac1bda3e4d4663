import type { FastifyPluginAsync } from 'fastify';
import type { AuditOptions } from './options.ts';
import { checkpointRoutes } from './routes/checkpointRoutes.ts';
import { eventRoute } from './routes/eventRoute.ts';
import { histogramRoute } from './routes/histogramRoute.ts';
import { receiptRoutes } from './routes/receiptRoutes.ts';
import { tileRoutes } from './routes/tileRoutes.ts';

/**
 * The routes for auditors: events and, if the log has a Merkle tree, checkpoints, tiles, entries and receipts. Earlier
 * hooks of the context must authenticate.
 */
export const audit: FastifyPluginAsync<AuditOptions> = async (app, options) => {
  const { transparency } = options;
  histogramRoute(app, options);
  eventRoute(app, options);
  if (!transparency) return;
  const withTree = { ...options, ...transparency };
  checkpointRoutes(app, withTree);
  tileRoutes(app, withTree);
  receiptRoutes(app, withTree);
};
