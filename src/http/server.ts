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
import { parseJsonBody } from './bodyParser.ts';
import { boundedServer } from './boundedServer.ts';
import { errorHandler, handleClientError } from './errorHandler.ts';
import { type ErrorEntries, HTTP_ERRORS, HttpError } from './errors.ts';
import { fieldCount } from './fieldCount.ts';
import { type ClosedRequest, logWhenClosed, pathOf } from './requestLog.ts';
import { validatorCompiler } from './validation.ts';

declare module 'fastify' {
  interface FastifyRequest {
    /** The authenticated user, for the request log; empty if there is none. */
    user: string;
  }
}

const SERVER_OPTIONS = {
  requestTimeout: 20_000,
  headersTimeout: 10_000,
  keepAliveTimeout: 65_000,
  connectionsCheckingInterval: 1_000,
  requireHostHeader: false,
};
/**
 * A connection without any traffic, as when a client does not read its response, is closed after one to two
 * of these.
 */
const STALLED_TIMEOUT_MS = 70_000;
const CORS_MAX_AGE_S = 600;
const EXPOSED_HEADERS = [
  'Checkpoint',
  'Content-Disposition',
  'Link',
  'Log-Position',
  'Request-Id',
  'Retry-After',
];
/** Parameters in paths are limited by the size of a request's head only. */
const MAX_PARAM_LENGTH = 16 * 1024;

type Options = {
  logger: FastifyBaseLogger;
  corsOrigins: readonly string[];
  /** Every error that has a response of its own. */
  errors: ErrorEntries;
  onClosed?: ((request: ClosedRequest) => void) | undefined;
  onError?: ((error: unknown) => void) | undefined;
};

/** Fastify with lossless JSON, one shape of error, and one line in the log per request. */
export async function httpServer({ logger, corsOrigins, errors, onClosed, onError }: Options) {
  const handleError = errorHandler(errors, onError);
  const app = Fastify({
    loggerInstance: logger,
    logController: new ErrorsOnly({ disableRequestLogging: true, requestIdLogLabel: 'requestId' }),
    genReqId: () => randomUUID(),
    serverFactory: (handle) =>
      boundedServer(SERVER_OPTIONS, handle, (closed) =>
        logger.warn(closed, 'closed connections that pipeline, or do not read'),
      ).setTimeout(STALLED_TIMEOUT_MS),
    return503OnClosing: false,
    clientErrorHandler: handleClientError,
    routerOptions: { maxParamLength: MAX_PARAM_LENGTH },
    frameworkErrors: (error, request, reply) => {
      prepareReply(request, reply, onClosed);
      addCorsHeaders(request, reply, corsOrigins); // no hook runs
      handleError(error, request, reply);
    },
  }).withTypeProvider<TypeBoxTypeProvider>();

  let closing = false;
  app.addHook('preClose', async () => {
    closing = true;
  });

  const routes = new Map<string, { pattern: RegExp; methods: Set<string> }>();
  app.addHook('onRoute', ({ url, method }) => {
    if (url === '*') return; // the one of CORS preflight requests
    const route = routes.get(url) ?? { pattern: routePattern(url), methods: new Set() };
    routes.set(url, route);
    for (const one of [method].flat()) route.methods.add(one);
  });
  /** The methods of a path; none if it has no route. */
  const methodsOf = ({ url }: FastifyRequest): string[] => {
    const path = routePath(url);
    const matching = [...routes.values()].filter(({ pattern }) => pattern.test(path));
    return [...new Set(matching.flatMap(({ methods }) => [...methods]))].sort();
  };
  const throwNotFound = (request: FastifyRequest): never => {
    const methods = methodsOf(request);
    if (methods.length === 0 || methods.includes(request.method)) throw new HttpError(HTTP_ERRORS.notFound);
    const allow = methods.join(', ');
    throw new HttpError(HTTP_ERRORS.methodNotAllowed, `Method not allowed; use ${allow}.`, { allow });
  };
  app.setNotFoundHandler(throwNotFound);

  app.decorateRequest('user', '');
  app.addHook('onRequest', (request, reply, done) => {
    prepareReply(request, reply, onClosed);
    // OPTIONS is allowed for CORS preflight requests only.
    if (request.method === 'OPTIONS' && !(isPreflight(request) && methodsOf(request).length > 0))
      throwNotFound(request);
    done();
  });
  app.addHook('onSend', (_request, reply, _payload, done) => {
    if (closing) reply.header('connection', 'close');
    done();
  });
  app.setErrorHandler(handleError);
  // Node itself would respond to an unknown Expect with an empty body.
  app.server.on('checkExpectation', (request, response) => app.server.emit('request', request, response));

  app.setValidatorCompiler(validatorCompiler);
  app.setSerializerCompiler(() => JSON.stringify);
  app.removeAllContentTypeParsers();
  app.addContentTypeParser('application/json', parseJsonBody);

  if (corsOrigins.length > 0) {
    const options = {
      origin: [...corsOrigins],
      allowedHeaders: ['Authorization', 'Content-Type', 'Last-Event-ID', 'Log-Position', 'Traceparent'],
      exposedHeaders: EXPOSED_HEADERS,
      strictPreflight: false,
      maxAge: CORS_MAX_AGE_S,
    };
    await app.register(cors, {
      delegator: (request, callback) =>
        callback(null, isPreflight(request) ? { ...options, methods: methodsOf(request) } : options),
    });
  }

  app.addHook('onRequest', (request, _reply, done) => {
    const { expect } = request.headers;
    if (!hasOneHost(request.raw))
      throw new HttpError(HTTP_ERRORS.malformedHttp, 'The request must have one Host field.');
    if (expect !== undefined && expect.toLowerCase() !== '100-continue')
      throw new HttpError(HTTP_ERRORS.expectationFailed);
    if (request.is404) throwNotFound(request); // before the body is parsed
    done();
  });

  return app;
}

/** What every response has. */
function prepareReply(request: FastifyRequest, reply: FastifyReply, onClosed: Options['onClosed']): void {
  logWhenClosed(request, reply, onClosed);
  reply.header('request-id', request.id).header('cache-control', 'no-store');
}

/** What the CORS plugin adds in its hook, for responses to requests without one. */
function addCorsHeaders({ headers }: FastifyRequest, reply: FastifyReply, origins: readonly string[]): void {
  if (origins.length === 0) return;
  reply.header('vary', 'Origin').header('access-control-expose-headers', EXPOSED_HEADERS.join(', '));
  if (headers.origin !== undefined && origins.includes(headers.origin))
    reply.header('access-control-allow-origin', headers.origin);
}

/** The path as the router decodes it: an encoded slash separates nothing. */
function routePath(url: string): string {
  const path = pathOf(url);
  try {
    return decodeURI(path);
  } catch {
    return path;
  }
}

/** The paths of a route such as /plants/:id or /tile/*. */
function routePattern(route: string): RegExp {
  const parts = route.split(/(:\w+|\*)/).map((part) => {
    if (part === '*') return '.*';
    return part.startsWith(':') ? '[^/]*' : RegExp.escape(part);
  });
  return new RegExp(`^${parts.join('')}$`);
}

/** https://fetch.spec.whatwg.org/#cors-preflight-request */
function isPreflight({ method, headers }: FastifyRequest): boolean {
  return method === 'OPTIONS' && headers.origin !== undefined && 'access-control-request-method' in headers;
}

/** RFC 9112 section 3.2; HTTP/1.0 has no Host. */
function hasOneHost(request: IncomingMessage): boolean {
  const hosts = fieldCount(request, 'host');
  return hosts === 1 || (hosts === 0 && request.httpVersion === '1.0');
}

/** Fastify's own log lines: only errors that abort a response, unless the client has disconnected. */
class ErrorsOnly extends LogController {
  override streamError(error: NodeJS.ErrnoException, _request: FastifyRequest, reply: FastifyReply): void {
    if (error.code !== 'ERR_STREAM_PREMATURE_CLOSE') reply.log.error({ err: error }, 'response aborted');
  }
}
