import pino from 'pino';
import { Follower, type Progress } from '../../projections/follow.ts';
import { VIEWS } from '../../projections/views.ts';
import type { EventStore } from '../../src/eventStore/eventStore.ts';
import { caughtUp } from './caughtUp.ts';

type OnProgress = (progress: Progress) => void;

/** Builds the view of a whole log in a new file, and saves it; resolves with the milliseconds it took. */
export async function buildView(
  store: EventStore,
  file: string,
  onProgress: OnProgress = () => {},
): Promise<number> {
  const view = await VIEWS.plantsByUser.open(file);
  const end = await store.lastPosition();
  const logger = pino({ level: 'warn' });
  const started = performance.now();
  const follower = new Follower({ store, view, skip: new Set(), logger, onProgress });
  await caughtUp(follower, end);
  await view.save();
  const took = performance.now() - started;
  await follower.stop();
  await view.close();
  return took;
}
