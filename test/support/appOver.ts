import { join } from 'node:path';
import pino from 'pino';
import { onTestFinished } from 'vitest';
import { PlantsByUser } from '../../projections/plantsByUser.ts';
import { buildApp, type Dependencies } from '../../src/app.ts';
import type { EventStore } from '../../src/eventStore/eventStore.ts';
import { tempDir } from './tempDir.ts';

/** The HTTP side over a store that fails as told, and its log. */
export async function appOver(fault: Partial<EventStore>, given: Partial<Dependencies> = {}) {
  const view = new PlantsByUser(join(tempDir(), 'view.db'));
  view.reset('m');
  onTestFinished(() => view.close());
  const lines: string[] = [];
  const store = { mark: async () => 'm', append: async () => ({ position: 1n, revision: 0n }), ...fault };
  const app = await buildApp({
    store: store as EventStore,
    view,
    follower: { reached: async () => {}, notReady: () => undefined, rebuilds: 0, stop: async () => {} },
    verifyToken: (token) => ({ user: token, scopes: [], until: Number.POSITIVE_INFINITY }),
    corsOrigins: [],
    source: 'urn:example:store',
    log: pino({ level: 'info' }, { write: (line: string) => void lines.push(line) }),
    now: () => new Date(0),
    newId: () => 'e1',
    ...given,
  });
  onTestFinished(() => app.close());
  return { app, url: await app.listen({ port: 0, host: '127.0.0.1' }), log: () => lines.join('') };
}
