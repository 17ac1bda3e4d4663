import helmet from '@fastify/helmet';
import type { FastifyInstance } from 'fastify';

/** More of what a page may load, by directive of its Content-Security-Policy. */
type PageSources = Record<string, readonly string[]>;

/**
 * Security headers for every response in this context, which has pages for browsers: they load only from
 * their own origin, run no inline script and no eval, and no other page frames them.
 */
export async function pageHeaders(app: FastifyInstance, sources: PageSources = {}): Promise<void> {
  const none = ["'none'"];
  const self = ["'self'"];
  await app.register(helmet, {
    contentSecurityPolicy: {
      useDefaults: false,
      directives: {
        defaultSrc: none,
        scriptSrc: self,
        styleSrc: self,
        imgSrc: self,
        connectSrc: self,
        baseUri: none,
        formAction: none,
        frameAncestors: none,
        ...sources,
      },
    },
    xContentTypeOptions: true,
    referrerPolicy: { policy: 'no-referrer' },
    crossOriginOpenerPolicy: { policy: 'same-origin' },
    crossOriginResourcePolicy: { policy: 'same-origin' },
    xFrameOptions: { action: 'deny' },
    strictTransportSecurity: false, // set by the proxy that ends TLS
    originAgentCluster: false,
    xDnsPrefetchControl: false,
    xDownloadOptions: false,
    xPermittedCrossDomainPolicies: false,
    xXssProtection: false,
  });
}
