import Fastify from 'fastify';

// A Fastify that stores nothing and lists 100 plants from memory, with request log and validation.

const plant = { type: 'object', properties: { name: { type: 'string' }, tag: { type: 'string' } } };
const plants = Array.from({ length: 100 }, (_, i) => ({ name: `Fern number ${i}`, tag: 'indoor' }));

const app = Fastify({ logger: true });
app.post('/plants', { schema: { body: plant, response: { 200: plant } } }, async ({ body }) => body);
app.get('/plants', async () => plants);
await app.listen({ port: Number(process.env.PORT), host: '127.0.0.1' });
