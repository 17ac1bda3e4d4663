import { consistencyProofFromTiles, rootFromTiles, TileMismatch, tilePath } from '../merkle/tiles.ts';
import { formatTreeHead } from '../merkle/treeHead.ts';
import { VerifiedTiles } from '../merkle/verifiedTiles.ts';
import { openCheckpoint } from '../notes/checkpoint.ts';
import { decodeUtf8 } from '../notes/encoding.ts';
import { NotVerified } from '../notes/notVerified.ts';
import { formatConsistencyProof } from '../notes/proof.ts';
import type { VerifierKey } from '../notes/signedNote.ts';
import { Alarm, type Evidence } from './alarm.ts';
import { readEntriesAfter } from './entries.ts';
import { type CheckEvent, EventCheck } from './eventCheck.ts';
import { type LogClient, LogUnavailable } from './logClient.ts';
import type { ReceivedCheckpoint, State } from './state.ts';

/** The log is consistent with all that it has signed before; its `added` events, or all, were checked. */
type Checked = {
  checkpoint: ReceivedCheckpoint;
  state: State;
  added: number;
  unknown: number;
};

type Options = {
  client: Pick<LogClient, 'checkpoint' | 'tile' | 'entries'>;
  key: VerifierKey;
  state: State;
  /** Whether all events are checked, not only the new ones. */
  all?: boolean | undefined;
  check?: CheckEvent | undefined;
  now: () => Date;
  sleep: (ms: number) => Promise<void>;
  /** Called with each new checkpoint, before anything else is fetched, so that it is not forgotten. */
  onReceived: (state: State) => Promise<void>;
  onProblem: (problem: string) => void;
  onProgress?: (events: number, end: number) => void;
};

/** A checkpoint with fewer events is fetched again: another instance may lag behind. */
const MAX_RETRIES = 5;
const RETRY_INTERVAL_MS = 1_000;
/** Checkpoints that wait for their tiles: more than half a day of them, one a minute. */
const MAX_PENDING = 1_000;

/** Checks what the log signs against what it signed before, and new events. @throws Alarm, LogUnavailable */
export async function checkLog(options: Options): Promise<Checked> {
  const { checkpoint, state } = await fetchCheckpoint(options);
  const largest = largestOf(state);
  if (checkpoint.size < largest.size) throw await rollback(checkpoint, largest, state, options);
  if (checkpoint === state.checkpoint && state.pending.length === 0 && !options.all)
    return { checkpoint, state, added: 0, unknown: 0 };
  try {
    const tiles = await compareAll(state, largest, options.client);
    return await checkEvents(largest, { ...options, state }, tiles);
  } catch (error) {
    if (!(error instanceof TileMismatch)) throw error;
    const received = [...error.received].map(([path, content]) => ({
      name: path.replaceAll('/', '-'),
      content,
    }));
    throw new Alarm('mismatch', error.message, [...checkpointFiles(largest), ...received]);
  }
}

const knownOf = ({ checkpoint, pending }: State): ReceivedCheckpoint[] =>
  checkpoint ? [checkpoint, ...pending] : [...pending];

function largestOf(state: State): ReceivedCheckpoint {
  return knownOf(state).reduce((largest, one) => (largest.size >= one.size ? largest : one));
}

/** The checkpoint of now, which is also in the state, as every other one that was received meanwhile. */
async function fetchCheckpoint(options: Options): Promise<{ checkpoint: ReceivedCheckpoint; state: State }> {
  let { state } = options;
  compareHeads(state); // a kill may have prevented the alarm
  for (let retries = 0; ; retries++) {
    const checkpoint = await openReceived(await options.client.checkpoint(), options);
    const known = knownOf(state).find(
      ({ size, root }) => size === checkpoint.size && root === checkpoint.root,
    );
    if (!known) state = { ...state, pending: [...state.pending, checkpoint] };
    try {
      if (!known) await options.onReceived(state);
    } finally {
      compareHeads(state); // also if the disk is full
    }
    if (state.pending.length > MAX_PENDING) throw withheld(state);
    const { size } = largestOf(state);
    if (checkpoint.size === size || retries === MAX_RETRIES)
      return { checkpoint: known ?? checkpoint, state };
    await options.sleep(RETRY_INTERVAL_MS);
  }
}

async function openReceived(bytes: Buffer, { key, now }: Options): Promise<ReceivedCheckpoint> {
  try {
    const note = decodeUtf8(bytes);
    return { ...(await openCheckpoint(note, key)), note, receivedAt: now().toISOString() };
  } catch (error) {
    if (!(error instanceof NotVerified)) throw error;
    throw new Alarm('invalid checkpoint', error.message, [{ name: 'received.checkpoint', content: bytes }]);
  }
}

/** Finds what two checkpoints show without tiles. @throws Alarm */
function compareHeads(state: State): void {
  const known = knownOf(state);
  for (const [i, one] of known.entries()) {
    const { size, root } = one;
    const other = known.slice(0, i).find((earlier) => (earlier.size === size) !== (earlier.root === root));
    if (!other) continue;
    const message =
      other.size === size
        ? `the log has signed two roots of ${size} events: ${other.root} and ${root}`
        : `the log has signed the root of ${other.size} events again, for ${size} events`;
    throw new Alarm('fork', message, checkpointFiles(one, other));
  }
}

/** Compares all checkpoints with the tree of the largest one, and returns its tiles. @throws Alarm, TileMismatch, LogUnavailable */
async function compareAll(
  state: State,
  largest: ReceivedCheckpoint,
  client: Options['client'],
): Promise<VerifiedTiles> {
  const kept = largest === state.checkpoint ? state.tiles : undefined;
  const tiles = await VerifiedTiles.open(
    largest,
    async (tile) => kept?.get(tilePath(tile)) ?? client.tile(tile),
  );
  for (const one of knownOf(state)) {
    if (one.size === largest.size) continue;
    const root = await rootFromTiles(one.size, tiles.read);
    if (root !== one.root) throw await fork(one, largest, root, tiles);
  }
  return tiles;
}

/** The alarm that the tree of the larger checkpoint does not begin with the smaller one; with the proof of it. */
async function fork(
  smaller: ReceivedCheckpoint,
  larger: ReceivedCheckpoint,
  root: string,
  tiles: VerifiedTiles,
): Promise<Alarm> {
  const { size } = smaller;
  const path = await consistencyProofFromTiles(size, larger.size, tiles.read);
  const proof = formatConsistencyProof({ from: size, path, checkpoint: larger.note });
  const isInOrder = smaller.receivedAt <= larger.receivedAt;
  const files = isInOrder ? checkpointFiles(larger, smaller) : checkpointFiles(smaller, larger);
  const found = formatTreeHead({ size, root });
  return new Alarm(
    'fork',
    `the log has signed ${formatTreeHead(smaller)}, but the first ${size} of its ${larger.size} events are ${found}`,
    [...files, { name: 'consistency.proof', content: Buffer.from(proof) }],
    found,
  );
}

async function rollback(
  received: ReceivedCheckpoint,
  largest: ReceivedCheckpoint,
  state: State,
  { client }: Options,
): Promise<Alarm> {
  let relation = 'which are the first of them';
  try {
    await compareAll(state, largest, client);
  } catch (error) {
    if (error instanceof Alarm) return error;
    if (!(error instanceof LogUnavailable || error instanceof TileMismatch)) throw error;
    relation = 'and does not show whether they are the first of them';
  }
  const message = `the log has signed ${largest.size} events, and now signs ${received.size}, ${relation}`;
  return new Alarm('rollback', message, checkpointFiles(received, largest));
}

function withheld({ pending }: State): Alarm {
  const first = pending[0] as ReceivedCheckpoint;
  const message = `since ${first.receivedAt} the log has signed ${pending.length} checkpoints, and shown the tiles of none`;
  return new Alarm('withheld', message, checkpointFiles(pending.at(-1) as ReceivedCheckpoint, first));
}

function checkpointFiles(received: ReceivedCheckpoint, earlier?: ReceivedCheckpoint): Evidence[] {
  const file = { name: 'received.checkpoint', content: Buffer.from(received.note) };
  return earlier ? [{ name: 'earlier.checkpoint', content: Buffer.from(earlier.note) }, file] : [file];
}

async function checkEvents(
  checkpoint: ReceivedCheckpoint,
  { state, client, all, check, now, onProblem, onProgress }: Options,
  tiles: VerifiedTiles,
): Promise<Checked> {
  const known = state.checkpoint?.size ?? 0;
  const from = all ? 0 : known;
  const events = new EventCheck(now, all ? undefined : state.latestTime, check);
  const report = (problem: string | undefined, ordinal: number): void => {
    if (problem !== undefined) onProblem(`event ${ordinal}, ${problem}`);
  };
  for await (const { first, entries } of readEntriesAfter(from, tiles, client)) {
    for (const [i, entry] of entries.entries()) report(events.problem(entry), first + i);
    onProgress?.(first - 1 + entries.length, checkpoint.size);
  }
  if (events.duplicates.hasCandidates)
    for await (const { first, entries } of readEntriesAfter(from, tiles, client))
      for (const [i, entry] of entries.entries()) report(events.duplicate(entry, first + i), first + i);
  if (events.duplicates.isIncomplete) onProblem('more events may occur twice than could be compared');
  return {
    checkpoint,
    state: { checkpoint, pending: [], tiles: tiles.partial, latestTime: events.latestTime },
    added: checkpoint.size - known,
    unknown: events.unknown,
  };
}
