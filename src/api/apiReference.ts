import accepts from '@fastify/accepts';
import type { FastifyPluginAsync } from 'fastify';
import { referencePage } from '../pages/referencePage.ts';

const HTML = 'text/html';

/** The API reference at /docs. `/` leads browsers there. */
export const apiReference: FastifyPluginAsync = async (app) => {
  await app.register(accepts);
  app.get('/', { schema: { hide: true } }, async (request, reply) => {
    // The first of equals is taken: a client that accepts everything is no browser.
    if (request.accepts().type(['application/json', HTML]) !== HTML) return reply.callNotFound();
    return reply.redirect('/docs');
  });
  await app.register(referencePage);
};
