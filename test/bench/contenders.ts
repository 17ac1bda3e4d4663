import { DatabaseSync } from 'node:sqlite';
import bearerAuth from '@fastify/bearer-auth';
import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox';
import Fastify, { LogController } from 'fastify';
import pino from 'pino';
import { NewPlant } from '../../src/api/plantRoutes.ts';
import { loadOrCreateKey } from '../../src/disk/keyFile.ts';
import { parseJsonBody } from '../../src/http/body.ts';
import { logWhenClosed } from '../../src/http/requestLog.ts';
import { validatorCompiler } from '../../src/http/validation.ts';
import { tokenVerifier } from '../../src/tokens/tokenVerifier.ts';

// The servers that the service is compared with; same body parser, validation, bearer check and request log:
//   bare: Fastify without storage, which lists 100 rows from memory
//   crud: a table of plants, one durable commit per request, rows read and serialised per request
// Usage: PORT=… KEY_FILE=… DATABASE=… node contenders.ts bare|crud

const [kind] = process.argv.slice(2);
const { PORT, KEY_FILE = '', DATABASE = '' } = process.env;

const { publicKey } = loadOrCreateKey(KEY_FILE);
const verifyToken = tokenVerifier({ key: publicKey, algorithms: ['EdDSA'], now: () => new Date() });
const log = pino({ base: null, timestamp: pino.stdTimeFunctions.isoTime }, pino.destination({ sync: false }));

const app = Fastify({
  loggerInstance: log,
  logController: new LogController({ disableRequestLogging: true, requestIdLogLabel: 'requestId' }),
  genReqId: () => crypto.randomUUID(),
}).withTypeProvider<TypeBoxTypeProvider>();
app.decorateRequest('user', '');
app.setValidatorCompiler(validatorCompiler);
app.removeAllContentTypeParsers();
app.addContentTypeParser('application/json', parseJsonBody);
app.addHook('onRequest', (request, reply, done) => {
  logWhenClosed(request, reply);
  done();
});
await app.register(bearerAuth, {
  keys: new Set<string>(),
  specCompliance: 'rfc6749',
  verifyErrorLogLevel: 'debug',
  auth: async (token, request) => {
    request.user = (await verifyToken(token)).subject;
    return true;
  },
});

if (kind === 'bare') {
  const rows = Array.from({ length: 100 }, (_, i) => ({ name: `Fern number ${i}`, tag: 'indoor' }));
  app.post('/plants', { schema: { body: NewPlant } }, async ({ body: { name, tag } }) => ({ name, tag }));
  app.get('/plants', async () => rows);
} else {
  const db = new DatabaseSync(DATABASE);
  db.exec(`
    PRAGMA journal_mode = WAL;
    PRAGMA synchronous = FULL;
    CREATE TABLE plants (user TEXT, id INTEGER, name TEXT, tag TEXT, PRIMARY KEY (user, id)) STRICT, WITHOUT ROWID`);
  const insert = db.prepare('INSERT INTO plants VALUES (?, ?, ?, ?)');
  const select = db.prepare('SELECT name, tag FROM plants WHERE user = ? ORDER BY id LIMIT 100');
  app.post('/plants', { schema: { body: NewPlant } }, async ({ user, body: { id, name, tag } }) => {
    insert.run(user, id, name, tag ?? null);
    return { name, tag };
  });
  app.get('/plants', async ({ user }) => select.all(user));
}

await app.listen({ port: Number(PORT), host: '127.0.0.1' });
