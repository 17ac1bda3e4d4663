import { randomUUID } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import cors from '@fastify/cors';
import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox';
import Fastify, {
  type FastifyBaseLogger,
  type FastifyReply,
  type FastifyRequest,
  LogController,
} from 'fastify';
import type { Identity } from '../tokens/tokenVerifier.ts';
import { BadRequest, NUMBERS } from './errors.ts';
import { jsonBody } from './jsonBody.ts';
import { refuse, refuseConnection } from './refuse.ts';
import { logWhenClosed, pathOf } from './requestLog.ts';
import { validatorCompiler } from './validation.ts';

declare module 'fastify' {
  interface FastifyRequest {
    /** Whom the bearer token speaks for; '' where none was asked for or it is not known yet. */
    user: string;
    /** What the bearer token is worth now. @throws InvalidToken */
    identify: () => Identity | Promise<Identity>;
  }
}

const LARGEST_BODY = 64 * 1024;

/** A client has this long to send a request, and its head, in milliseconds. */
const REQUEST_TIMEOUT = 20_000;
const HEADERS_TIMEOUT = 10_000;
const KEEP_ALIVE_TIMEOUT = 65_000;
/** A connection on which nothing moves, as when a client does not read its answer, is cut after one or two of these. */
const STALLED_TIMEOUT = 70_000;

/** Fastify as every route here needs it: exact JSON in, one shape of refusal out, one line in the log a request. */
export async function httpServer(log: FastifyBaseLogger, corsOrigins: readonly string[]) {
  const app = Fastify({
    loggerInstance: log,
    logController: new OnlyFaults({ disableRequestLogging: true, requestIdLogLabel: 'requestId' }),
    genReqId: () => randomUUID(),
    bodyLimit: LARGEST_BODY,
    requestTimeout: REQUEST_TIMEOUT,
    keepAliveTimeout: KEEP_ALIVE_TIMEOUT,
    connectionTimeout: STALLED_TIMEOUT,
    http: { headersTimeout: HEADERS_TIMEOUT, connectionsCheckingInterval: 1_000, requireHostHeader: false },
    return503OnClosing: false,
    clientErrorHandler: refuseConnection,
    frameworkErrors: (error, request, reply) => {
      begin(request, reply);
      refuse(error, request, reply);
    },
  }).withTypeProvider<TypeBoxTypeProvider>();

  let closing = false;
  app.addHook('preClose', async () => {
    closing = true;
  });

  const methods = new Map<string, Set<string>>();
  app.addHook('onRoute', ({ url, method }) => {
    const known = methods.get(url) ?? new Set();
    methods.set(url, known);
    for (const one of [method].flat()) known.add(one);
  });
  const refuseUnknown = ({ url }: FastifyRequest): never => {
    const allowed = methods.get(routeOf(url));
    if (!allowed) throw new BadRequest(NUMBERS.notFound, 'There is nothing here.');
    const allow = [...allowed].sort().join(', ');
    throw new BadRequest(NUMBERS.wrongMethod, `Only ${allow} can be used here.`, { allow });
  };
  app.setNotFoundHandler(refuseUnknown);

  app.decorateRequest('user', '');
  app.decorateRequest('identify');
  app.addHook('onRequest', (request, reply, done) => {
    begin(request, reply);
    // Where other origins may call, only what a browser asks beforehand is no wrong method.
    if (request.method === 'OPTIONS' && !(isPreflight(request) && methods.has(routeOf(request.url))))
      refuseUnknown(request);
    done();
  });
  app.addHook('onSend', (_request, reply, _payload, done) => {
    if (closing) reply.header('connection', 'close');
    done();
  });
  app.setErrorHandler(refuse);
  // Node would answer an unknown Expect by itself, with an empty body.
  app.server.on('checkExpectation', (request, response) => app.server.emit('request', request, response));

  app.setValidatorCompiler(validatorCompiler);
  app.setSerializerCompiler(() => JSON.stringify);
  app.removeAllContentTypeParsers();
  app.addContentTypeParser('application/json', { parseAs: 'buffer' }, jsonBody);

  if (corsOrigins.length > 0) {
    await app.register(cors, {
      origin: [...corsOrigins],
      methods: ['GET', 'HEAD', 'POST'],
      allowedHeaders: ['Authorization', 'Content-Type', 'Last-Event-ID', 'Log-Position'],
      exposedHeaders: ['Link', 'Log-Position', 'Request-Id', 'Retry-After'],
      strictPreflight: false,
      maxAge: 600,
    });
  }

  app.addHook('onRequest', (request, _reply, done) => {
    const { expect } = request.headers;
    if (!hasOneHost(request.raw))
      throw new BadRequest(NUMBERS.malformedHttp, 'There must be one Host field.');
    if (expect !== undefined && expect.toLowerCase() !== '100-continue') {
      throw new BadRequest(NUMBERS.expectation, 'Of the Expect field only 100-continue is known.');
    }
    // Before the body is looked at: what is wrong with it does not matter here.
    if (request.is404) refuseUnknown(request);
    done();
  });

  return app;
}

/** What every request gets, whatever becomes of it. */
function begin(request: FastifyRequest, reply: FastifyReply): void {
  logWhenClosed(request, reply);
  reply.header('request-id', request.id).header('cache-control', 'no-store');
}

/** The path as the router reads it. */
function routeOf(url: string): string {
  const path = pathOf(url);
  try {
    return decodeURIComponent(path);
  } catch {
    return path;
  }
}

/** https://fetch.spec.whatwg.org/#cors-preflight-request */
function isPreflight({ method, headers }: FastifyRequest): boolean {
  return method === 'OPTIONS' && headers.origin !== undefined && 'access-control-request-method' in headers;
}

/** RFC 9112 section 3.2; HTTP/1.0 knows no Host. */
function hasOneHost({ rawHeaders, httpVersion }: IncomingMessage): boolean {
  let hosts = 0;
  for (let i = 0; i < rawHeaders.length; i += 2) if (rawHeaders[i]?.toLowerCase() === 'host') hosts++;
  return hosts === 1 || (hosts === 0 && httpVersion === '1.0');
}

/** The request log is our own; what breaks an answer off is still told, unless it was the client. */
class OnlyFaults extends LogController {
  override streamError(error: NodeJS.ErrnoException, _request: FastifyRequest, reply: FastifyReply): void {
    if (error.code !== 'ERR_STREAM_PREMATURE_CLOSE') reply.log.error({ err: error }, 'an answer broke off');
  }
}
