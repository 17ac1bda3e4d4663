import type { UnnamedStubs } from '../entries/unnamedStubs.ts';
import { Alarm, checkpointFiles } from './alarm.ts';
import type { Check } from './check.ts';
import { receive } from './fetchCheckpoint.ts';
import { NotChecked } from './notChecked.ts';
import type { Received } from './received.ts';
import { remember } from './remember.ts';
import type { UnnamedStub } from './state.ts';

/** A log could state that it is larger than it is, and never reach that size. */
const MAX_WAIT_MS = 24 * 60 * 60 * 1_000;
/** A log may sign the checkpoint of a second ago. */
const CHECKPOINT_DELAY_MS = 2_000;

/**
 * The stubs that no record has named yet. A record is in the log before its stubs can be read, so it is in the newest
 * checkpoint that the log signs afterwards; a checkpoint with cosignatures may take longer to reach that size.
 * @throws Alarm if the checkpoint has reached the size by which a stub must be named, or a day has passed; NotChecked
 */
export async function checkStubs(
  { stubs }: UnnamedStubs,
  checkpoint: Received,
  check: Check,
): Promise<{ unnamed: readonly UnnamedStub[]; latest?: Received }> {
  const known = new Map(check.state.unnamed.map((stub) => [stub.leaf, stub]));
  const hasNew = [...stubs.keys()].some((leaf) => !known.has(leaf));
  const latest = hasNew ? await receiveLatest(checkpoint, check) : checkpoint;
  const now = check.now();
  const unnamed = [...stubs].map(
    ([leaf, number]) => known.get(leaf) ?? { number, leaf, bySize: latest.size, since: now.toISOString() },
  );
  const overdue = unnamed.filter(
    ({ bySize, since }) => bySize <= checkpoint.size || now.getTime() - Date.parse(since) > MAX_WAIT_MS,
  );
  const [first] = overdue;
  if (!first) return { unnamed, ...(latest.size > checkpoint.size && { latest }) };
  const message = `event ${first.number} was erased, and none of the ${checkpoint.size} events is a record of it; ${overdue.length} such event${overdue.length === 1 ? '' : 's'}`;
  const lines = overdue.map(({ number, leaf, bySize }) => `${number} ${leaf} ${bySize}\n`);
  throw new Alarm('unrecorded erasure', message, [
    ...checkpointFiles(checkpoint),
    { name: 'stubs.txt', content: Buffer.from(lines.join('')) },
  ]);
}

/** @throws Alarm, NotChecked */
async function receiveLatest({ size }: Received, check: Check): Promise<Received> {
  await check.sleep(CHECKPOINT_DELAY_MS);
  const received = await receive(check, () => check.client.latest());
  const latest = { ...received, mayBeAhead: check.policy !== undefined };
  await remember([latest], check.state, check);
  if (latest.size < size)
    throw new NotChecked(`the newest checkpoint has ${latest.size} events, fewer than ${size}`);
  return latest;
}
