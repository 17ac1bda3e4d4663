import { pipeline, Readable } from 'node:stream';
import { constants, createGzip, gzip, type ZlibOptions } from 'node:zlib';
import type { FastifyInstance } from 'fastify';
import { acceptedEncoding, isText, setEncoding } from './contentEncoding.ts';

/** Shorter text grows, or fits into the same packet. */
const MIN_BYTES = 1024;
/** Each needs about 256 KiB of memory. Further responses are not compressed. */
const MAX_STREAMS = 100;
/** The fastest level; a flush for each piece, so that none waits for the next one. */
const OPTIONS: ZlibOptions = { level: constants.Z_BEST_SPEED, flush: constants.Z_SYNC_FLUSH };

/**
 * Compresses text with gzip for clients that ask, on the threads of zlib. Event streams stay as they are: they may be open for
 * days, each with its memory.
 */
export function compressResponses(app: FastifyInstance): void {
  let streams = 0;
  app.addHook('onSend', (request, reply, payload, done) => {
    if (request.headers['accept-encoding'] === undefined) return done();
    const isStream = payload instanceof Readable;
    if (!isStream && !(typeof payload === 'string' || payload instanceof Buffer)) return done();
    if (isStream ? streams >= MAX_STREAMS : payload.length < MIN_BYTES) return done();
    const isEncoded = reply.hasHeader('content-length') || reply.hasHeader('content-encoding');
    const type = String(reply.getHeader('content-type'));
    if (isEncoded || !isText(type) || type.startsWith('text/event-stream')) return done();
    const encoding = acceptedEncoding(request, ['gzip']);
    if (encoding === undefined) return done();
    setEncoding(reply, encoding);
    if (!isStream) return gzip(payload, OPTIONS, done);
    streams++;
    // An error of either stream destroys both, so that no part of a response looks complete.
    const compressed = pipeline(payload, createGzip(OPTIONS), () => streams--);
    done(null, compressed);
  });
}
