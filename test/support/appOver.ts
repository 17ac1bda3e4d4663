import pino from 'pino';
import { onTestFinished } from 'vitest';
import type { EventStore, RecordedEvent } from '../../packages/event-log/src/eventStore.ts';
import { SILENT } from '../../packages/event-log/src/logger.ts';
import type { Follower } from '../../packages/event-log/src/views/follow.ts';
import { ReadYourWrites } from '../../packages/event-log/src/views/readYourWrites.ts';
import type { Claims } from '../../packages/http/src/tokens/tokenVerifier.ts';
import { buildApp } from '../../src/app.ts';
import { Erasures } from '../../src/erasures.ts';
import { VIEWS, type Views } from '../../src/views.ts';

/** The claims of a token that never expires. */
export const claimsOf = (subject: string, ...scopes: string[]): Claims => ({
  subject,
  scopes,
  verifyAgainAt: Number.POSITIVE_INFINITY,
});

/** Every token is the name of an auditor. */
export const AUDITORS = { verifyToken: (user: string) => claimsOf(user, 'audit') };

/** An event in the stream of a plant of alice, with these other parts. */
export const recorded = (position: bigint, part: Partial<RecordedEvent> = {}): RecordedEvent => ({
  position,
  stream: `plant-alice/${position}`,
  revision: 0n,
  id: `${position}`,
  type: 'Written',
  data: {},
  metadata: {},
  ...part,
});

/** Empty views, which nothing is applied to. */
function emptyViews(): Views {
  const awaited = Object.entries(VIEWS).filter(([, { isAwaited }]) => isAwaited);
  const views = awaited.map(([name, { open }]) => [name, open(':memory:')] as const);
  for (const [, view] of views) view.bind('m');
  return Object.fromEntries(views) as unknown as Views;
}

/** The HTTP API over a fake store, and its logs. */
export async function appOver(
  fakeStore: Partial<EventStore>,
  {
    reached = async () => {},
    plantsByUser,
    ...given
  }: Partial<Parameters<typeof buildApp>[0] & Views> & { reached?: Follower['reached'] } = {},
) {
  const lines: string[] = [];
  const store = {
    logId: async () => 'm',
    append: async () => ({ position: 1n, revision: 0n, logId: 'm' }),
    ...fakeStore,
  } as EventStore;
  const forHashing = fakeStore.forHashing ?? store;
  const views = { ...emptyViews(), ...(plantsByUser && { plantsByUser }) };
  const followers = Object.values(views).map(
    (view) => ({ view, readable: view, resets: 0, notReady: undefined, reached }) as unknown as Follower,
  );
  const erasures = new Erasures({ store, followers, dataDir: '', now: () => new Date(0), logger: SILENT });
  const app = await buildApp({
    store: { ...store, forHashing },
    views,
    readYourWrites: new ReadYourWrites(followers),
    followers,
    erasures,
    verifyToken: (token) => claimsOf(token),
    corsOrigins: [],
    pages: false,
    rateLimit: undefined,
    source: 'urn:example:store',
    logger: pino({ level: 'info' }, { write: (line: string) => void lines.push(line) }),
    now: () => new Date(0),
    newEventId: () => 'e1',
    ...given,
  });
  onTestFinished(() => app.close());
  return { app, url: await app.listen({ port: 0, host: '127.0.0.1' }), log: () => lines.join('') };
}
