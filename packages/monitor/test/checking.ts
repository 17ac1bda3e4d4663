import { expect } from 'vitest';
import type { TreeHead } from '../../tlog/src/merkle/treeHead.ts';
import { openCheckpoint } from '../../tlog/src/notes/checkpoint.ts';
import { openConsistencyProof } from '../../tlog/src/notes/proof.ts';
import { signCheckpoint } from '../../tlog/src/sign/signCheckpoint.ts';
import { Alarm } from '../src/alarm.ts';
import { checkLog } from '../src/checkLog.ts';
import { NotChecked } from '../src/notChecked.ts';
import type { Received } from '../src/received.ts';
import { keep, NEW_STATE, type State } from '../src/state.ts';
import { entries, FakeLog, KEY, NOW, ORIGIN, toEntry, VERIFIER_KEY } from './fakeLog.ts';

export const signed = (head: TreeHead): string => signCheckpoint(head, { origin: ORIGIN, key: KEY });
export const received = (head: TreeHead, receivedAt = '2026-05-31T00:00:00.000Z'): Received => ({
  origin: ORIGIN,
  ...head,
  note: signed(head),
  receivedAt,
});
/** The state of a monitor that has checked a log with this head, and has received others. */
export const stateOf = (head?: TreeHead, ...others: TreeHead[]): State =>
  others.map((one) => received(one)).reduce(keep, { ...NEW_STATE, compared: head && received(head) });

/** What a monitor with this state finds in a log. */
export async function check(
  log: FakeLog,
  state = NEW_STATE,
  options: Partial<Parameters<typeof checkLog>[0]> = {},
) {
  const notices: string[] = [];
  const slept: number[] = [];
  const states = [state];
  const checked = checkLog({
    client: log,
    key: VERIFIER_KEY,
    state,
    known: [],
    now: () => NOW,
    sleep: async (ms) => void slept.push(ms),
    save: async (last) => void states.push(last),
    onNotice: (line) => notices.push(line),
    ...options,
  });
  let error: unknown;
  const found = await checked.catch((thrown) => {
    error = thrown;
  });
  return { found, error, notices, slept, last: states.at(-1) as State };
}

/** What a monitor finds that has no alarm. */
export async function checked(log: FakeLog, state?: State) {
  const { found, error, ...more } = await check(log, state);
  if (!found) throw error;
  return { ...found, ...more };
}

/** The message of the alarm, and its evidence as text by name. */
export async function alarmOf(...checked: Parameters<typeof check>) {
  const { error } = await check(...checked);
  if (!(error instanceof Alarm)) throw error ?? new Error('no alarm');
  const files = Object.fromEntries(error.evidence.map(({ name, content }) => [name, `${content}`]));
  return { message: error.message, files };
}

export const ALL = entries(700);
export const logOf = (size: number): FakeLog => new FakeLog(ALL.slice(0, size));
/** The same events, except for a different byte in one name. */
export const forkOf = (size: number, place: number): FakeLog =>
  new FakeLog(ALL.slice(0, size).with(place, toEntry(place + 1, { name: 'Fren' })));

let missed = 0;
/** A log chooses the text of its responses. */
export const missing = async () => {
  throw new NotChecked(`404 ${missed++}`, true);
};

export const unavailable = async () => {
  throw new NotChecked('503');
};

/** A log with the tiles of the first log that serves the checkpoints of the other logs, one after the other. */
export function showing(logs: readonly { checkpoint(): Promise<Buffer> }[], tiles: FakeLog): FakeLog {
  const received = [...logs];
  const last = received.at(-1) as FakeLog;
  tiles.checkpoint = async () => (received.shift() ?? last).checkpoint();
  return tiles;
}

export const stating = (head: TreeHead) => ({ checkpoint: async () => Buffer.from(signed(head)) });

/** Expects that the files of an alarm are two signed checkpoints that contradict each other. */
export async function expectFork({ message, files }: Awaited<ReturnType<typeof alarmOf>>): Promise<void> {
  const open = (file: string): Promise<TreeHead> => openCheckpoint(files[file] as string, VERIFIER_KEY);
  const [one, two] = await Promise.all([open('earlier.checkpoint'), open('received.checkpoint')]);
  expect(one.root === two.root).toBe(one.size !== two.size && message.includes('again'));
  const proof = files['consistency.proof'];
  if (proof === undefined) {
    expect(one.size === two.size || one.root === two.root).toBe(true);
    return;
  }
  const [smaller, larger] = one.size < two.size ? [one, two] : [two, one];
  const root = message.match(/[\da-f]{64}$/)?.[0] as string;
  expect(root).not.toBe(smaller.root);
  expect(await openConsistencyProof(proof, { size: smaller.size, root }, VERIFIER_KEY)).toMatchObject(larger);
}
