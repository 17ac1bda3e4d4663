import { lookup } from 'node:dns/promises';
import { promisify } from 'node:util';
import type { FastifyBaseLogger } from 'fastify';
import { follow, type Progress } from '../projections/follow.ts';
import { PlantsByUser } from '../projections/plantsByUser.ts';
import { buildApp } from './app.ts';
import type { Config } from './config.ts';
import { takeDataDir } from './dataDir.ts';
import { START } from './eventStore/eventStore.ts';
import { newId } from './newId.ts';
import { openStore, viewFile } from './openStore.ts';
import { loadOrCreateKey } from './tokens/keyFile.ts';
import {
  PROVIDER_ALGORITHMS,
  providerKeys,
  tokenVerifier,
  type VerifyToken,
} from './tokens/tokenVerifier.ts';

export type Service = {
  /** Where it listens. */
  url: string;
  /** Whether the embedded log is one in which nobody has created a plant yet. */
  isNew: boolean;
  /** Cuts the connections that are still open; resolves with their number. */
  cutConnections(): Promise<number>;
  /** Stops accepting, finishes what is in flight, lets go of the files. */
  close(): Promise<void>;
};

type Surroundings = {
  log: FastifyBaseLogger;
  onProgress: (progress: Progress) => void;
  /** The disk can no longer be trusted; the process must end. */
  onFatal: (error: Error) => void;
};

/**
 * The whole service from its configuration: data directory → keys → store → view → HTTP.
 * @throws Error with a message for an operator; everything opened until then is closed
 */
export async function serve(config: Config, { log, onProgress, onFatal }: Surroundings): Promise<Service> {
  const now = () => new Date();
  const open = new AsyncDisposableStack();
  try {
    const lock = takeDataDir(config.dataDir);
    open.defer(() => lock.close());
    const verifyToken = trust(config, now);

    const store = await openStore(config, { log, now, onFatal });
    open.defer(() => store.close());
    const isNew = !config.eventStoreDb && (await store.end()) === START;

    const view = new PlantsByUser(viewFile(config.dataDir));
    open.defer(() => view.close());
    const follower = follow({ store, view, skip: config.skipEvents, log, onProgress });
    open.defer(() => follower.stop());

    const { corsOrigins, source } = config;
    const app = await buildApp({
      store,
      view,
      follower,
      verifyToken,
      corsOrigins,
      source,
      log,
      now,
      newId: () => newId(now()),
    });
    open.defer(() => app.close());
    // One address: Fastify would give the second of a name a server of its own, without our handlers.
    const { address: host } = await lookup(config.host);
    const url = await app.listen({
      host,
      port: config.port,
      listenTextResolver: (at) => `listening at ${at}`,
    });
    return {
      url,
      isNew,
      cutConnections: async () => {
        const connections = await promisify(app.server.getConnections.bind(app.server))();
        app.server.closeAllConnections();
        return connections;
      },
      close: () => open.disposeAsync(),
    };
  } catch (error) {
    await open.disposeAsync();
    throw error;
  }
}

function trust({ jwksUrl, keyFile, issuer, audience }: Config, now: () => Date): VerifyToken {
  return jwksUrl
    ? tokenVerifier({ key: providerKeys(jwksUrl), algorithms: PROVIDER_ALGORITHMS, issuer, audience, now })
    : tokenVerifier({
        key: loadOrCreateKey(keyFile).publicKey,
        algorithms: ['EdDSA'],
        issuer,
        audience,
        now,
      });
}
