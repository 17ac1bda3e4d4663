import accepts from '@fastify/accepts';
import swaggerUi from '@fastify/swagger-ui';
import type { FastifyPluginAsync } from 'fastify';
import { pageHeaders } from '../http/pageHeaders.ts';

const PATH = '/docs';
const HTML = 'text/html';

/** The API reference: a page on which a developer with a token tries the operations. `/` leads browsers there. */
export const apiReference: FastifyPluginAsync = async (app) => {
  await app.register(accepts);
  app.get('/', { schema: { hide: true } }, async (request, reply) => {
    // The first of equals is taken: a client that accepts everything is no browser.
    if (request.accepts().type(['application/json', HTML]) !== HTML) return reply.callNotFound();
    return reply.redirect(PATH);
  });
  await app.register(async (page) => {
    await pageHeaders(page, { imgSrc: ["'self'", 'data:'] }); // for the icons in the style sheet
    await page.register(swaggerUi, {
      routePrefix: PATH,
      theme: { title: 'Plant store: API reference' },
      uiConfig: { layout: 'BaseLayout', tryItOutEnabled: true, displayRequestDuration: true },
    });
  });
};
