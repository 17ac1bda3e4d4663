import { randomUUID } from 'node:crypto';
import { METHODS } from 'node:http';
import { Readable } from 'node:stream';
import cors from '@fastify/cors';
import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox';
import Fastify, {
  type FastifyBaseLogger,
  type FastifyInstance,
  type FastifyReply,
  type FastifyRequest,
  LogController,
} from 'fastify';
import fastifyPlugin from 'fastify-plugin';
import findMyWay, { type HTTPMethod } from 'find-my-way';
import { parseJsonBody } from './body.ts';
import { boundedServer } from './boundedServer.ts';
import { compressResponses } from './compression.ts';
import { isText } from './contentEncoding.ts';
import { errorHandler, handleClientError } from './errorHandler.ts';
import { type ErrorDefinitions, HTTP_ERRORS, HttpError } from './errors.ts';
import { fieldCount } from './fieldCount.ts';
import type { Metrics } from './metrics/metrics.ts';
import { RATE_LIMIT_HEADERS } from './openapi.ts';
import { logWhenClosed } from './requestLog.ts';
import { RESPONSE_HEADERS } from './responseHeaders.ts';
import { NO_PARAMETERS, validatorCompiler } from './validation.ts';

declare module 'fastify' {
  interface FastifyRequest {
    /** The authenticated user, for the request log; empty without authentication. */
    user: string;
  }
}

export const SERVER_OPTIONS = {
  requestTimeout: 20_000,
  headersTimeout: 10_000,
  keepAliveTimeout: 65_000,
  connectionsCheckingInterval: 1_000,
  requireHostHeader: false,
};
/** A connection without traffic, for example of a client that does not read, is closed after one to two of these. */
export const STALLED_TIMEOUT_MS = 70_000;
const CORS_MAX_AGE_S = 600;
/** Only the size of a request's head limits the parameters in its path. */
const ROUTER_OPTIONS = { maxParamLength: 16 * 1024 };

export type HttpOptions = {
  corsOrigins: readonly string[];
  /** For requests of browsers from other origins: the allowed request headers, and the exposed response headers. */
  corsFields?: { allowed: string[]; exposed: string[] };
  errors: ErrorDefinitions;
  metrics?: Metrics | undefined;
};

type Options = HttpOptions & {
  logger: FastifyBaseLogger;
  /** Further connections are refused. */
  maxConnections?: number | undefined;
  /** When the server closes, idle connections stay open for this time, and the next response says `Connection: close`. */
  closeIdleAfterMs?: number | undefined;
};

/** The response headers that browsers of other origins can read. */
const exposedHeaders = ({ corsFields }: HttpOptions): string[] =>
  [
    ...Object.keys(RATE_LIMIT_HEADERS),
    'Request-Id',
    'Retry-After',
    'WWW-Authenticate',
    ...(corsFields?.exposed ?? []),
  ].sort();

/** Fastify with the plugin `http`, bounds on connections, and the same errors for HTTP that cannot be parsed. */
export async function httpServer(options: Options) {
  const { logger, corsOrigins, maxConnections, closeIdleAfterMs, metrics } = options;
  const handleError = errorHandler(options.errors, metrics);
  const app = Fastify({
    loggerInstance: logger,
    logController: new ErrorsOnly({ disableRequestLogging: true, requestIdLogLabel: 'requestId' }),
    genReqId: () => randomUUID(),
    serverFactory: (handle) =>
      boundedServer({ ...SERVER_OPTIONS, maxConnections, closeIdleAfterMs }, handle, (closed) =>
        logger.warn(closed, 'closed connections over a limit'),
      ).setTimeout(STALLED_TIMEOUT_MS),
    return503OnClosing: false,
    clientErrorHandler: handleClientError,
    routerOptions: ROUTER_OPTIONS,
    // With these, Fastify does not load Ajv, from which its types come, and its own serializer.
    schemaController: {
      compilersFactory: {
        buildValidator: () => validatorCompiler as never,
        buildSerializer: () => () => JSON.stringify,
      },
    },
    frameworkErrors: (error, request, reply) => {
      prepareReply(request, reply, metrics);
      const { origin } = request.headers; // no hooks run, not even the one of the CORS plugin
      if (corsOrigins.length > 0)
        reply
          .header('vary', 'Origin')
          .header('access-control-expose-headers', exposedHeaders(options).join(', '));
      if (origin !== undefined && corsOrigins.includes(origin))
        reply.header('access-control-allow-origin', origin);
      handleError(error, request, reply);
    },
  }).withTypeProvider<TypeBoxTypeProvider>();
  await app.register(http, options);
  return app;
}

/**
 * Exact integers in JSON, validation with TypeBox, one shape of errors and one log line per request, for the routes of a context
 * of any Fastify.
 */
export const http = fastifyPlugin(addHttp, { name: '@event-sourced/http', fastify: '5.x' });

async function addHttp(app: FastifyInstance, options: HttpOptions): Promise<void> {
  const { corsOrigins, corsFields = { allowed: [], exposed: [] }, metrics } = options;
  app.setValidatorCompiler(validatorCompiler as never).setSerializerCompiler(() => JSON.stringify);
  // A second router with the same routes: Fastify cannot list the methods of a path.
  const router = findMyWay(ROUTER_OPTIONS);
  app.addHook('onRoute', ({ url, method }) => {
    if (url !== '*') router.on([method].flat() as HTTPMethod[], url, () => {}); // '*' is for CORS preflight requests
  });
  // Pages and probes, which the OpenAPI document hides, accept any query.
  app.addHook('onRoute', (route) => {
    if (!route.schema?.hide) route.schema = { querystring: NO_PARAMETERS, ...route.schema };
  });
  const allowedMethods = ({ url }: FastifyRequest): string[] =>
    url === '*' ? [] : METHODS.filter((method) => router.find(method as HTTPMethod, url));
  const throwNotFound = (request: FastifyRequest): never => {
    const methods = allowedMethods(request);
    if (methods.length === 0 || methods.includes(request.method)) throw new HttpError(HTTP_ERRORS.notFound);
    const allow = methods.join(', ');
    throw new HttpError(HTTP_ERRORS.methodNotAllowed, `Method not allowed; use ${allow}.`, { allow });
  };
  app.setNotFoundHandler(throwNotFound);

  let closing = false;
  app.addHook('preClose', async () => {
    closing = true;
  });
  app.decorateRequest('user', '');
  app.decorateRequest('failure');
  app.addHook('onRequest', (request, reply, done) => {
    prepareReply(request, reply, metrics);
    // OPTIONS is only allowed for CORS preflight requests.
    if (request.method === 'OPTIONS' && !(isPreflight(request) && allowedMethods(request).length > 0))
      throwNotFound(request);
    done();
  });
  // Fastify does not check the media type of a request without a body.
  app.addHook('preValidation', ({ body, routeOptions }, _reply, done) => {
    if (body === undefined && routeOptions.schema?.body)
      throw new HttpError(HTTP_ERRORS.unsupportedMediaType, 'The request requires a JSON body.');
    done();
  });
  app.addHook('onSend', (request, reply, payload, done) => {
    if (closing) reply.header('connection', 'close');
    // Without a charset, some clients read text as Latin-1.
    const type = String(reply.getHeader('content-type') ?? '');
    if (isText(type) && !type.includes('charset=')) reply.header('content-type', `${type}; charset=utf-8`);
    if (!(payload instanceof Readable)) return done();
    // A client of HTTP/1.0 would take the part before a failure for the whole.
    if (request.raw.httpVersion !== '1.1' && !reply.hasHeader('content-length')) {
      payload.destroy();
      return done(new HttpError(HTTP_ERRORS.http11Required));
    }
    payload.once('error', () => {
      if (reply.raw.headersSent) reply.raw.socket?.resetAndDestroy();
    });
    done();
  });
  compressResponses(app);
  app.setErrorHandler(errorHandler(options.errors, metrics));
  // Node itself would respond to an unknown Expect with an empty body.
  app.server.on('checkExpectation', (request, response) => app.server.emit('request', request, response));

  app.removeAllContentTypeParsers();
  app.addContentTypeParser('application/json', parseJsonBody);

  if (corsOrigins.length > 0)
    await app.register(cors, {
      delegator: (request, callback) =>
        callback(null, {
          origin: [...corsOrigins],
          allowedHeaders: corsFields.allowed,
          exposedHeaders: exposedHeaders(options),
          strictPreflight: false,
          maxAge: CORS_MAX_AGE_S,
          ...(isPreflight(request) && { methods: allowedMethods(request) }),
        }),
    });

  app.addHook('onRequest', (request, _reply, done) => {
    const { expect } = request.headers;
    const hosts = fieldCount(request.raw, 'host'); // RFC 9112 section 3.2; HTTP/1.0 has none
    if (hosts > 1 || (hosts === 0 && request.raw.httpVersion !== '1.0'))
      throw new HttpError(HTTP_ERRORS.malformedHttp, 'The request must have one Host field.');
    if (expect !== undefined && expect.toLowerCase() !== '100-continue')
      throw new HttpError(HTTP_ERRORS.expectationFailed);
    if (request.is404) throwNotFound(request); // before the body is parsed
    done();
  });
}

function prepareReply(request: FastifyRequest, reply: FastifyReply, metrics?: Metrics): void {
  logWhenClosed(request, reply, metrics);
  reply.header('request-id', request.id).headers(RESPONSE_HEADERS);
}

/** https://fetch.spec.whatwg.org/#cors-preflight-request */
function isPreflight({ method, headers }: FastifyRequest): boolean {
  return method === 'OPTIONS' && headers.origin !== undefined && 'access-control-request-method' in headers;
}

/** Limits Fastify's own log lines to errors that abort a response while the client is connected. */
class ErrorsOnly extends LogController {
  override streamError(error: NodeJS.ErrnoException, _request: FastifyRequest, reply: FastifyReply): void {
    if (error.code !== 'ERR_STREAM_PREMATURE_CLOSE') reply.log.error({ err: error }, 'response aborted');
  }
}
