import { leafHash, MerkleTree } from '../merkle/merkleTree.ts';
import {
  HASH_BYTES,
  hashesOfTile,
  type ReadTile,
  rootFromTiles,
  TILE_WIDTH,
  tilePath,
  tileWidth,
  treeFromTiles,
} from '../merkle/tiles.ts';
import { openCheckpoint, type SignedCheckpoint, type TreeHead } from '../transparency/checkpoint.ts';
import { decodeUtf8 } from '../transparency/encoding.ts';
import { parseEntryBundle } from '../transparency/entryBundle.ts';
import { NotVerified } from '../transparency/notVerified.ts';
import type { VerifierKey } from '../transparency/signedNote.ts';
import { EventCheck } from './eventCheck.ts';
import type { LogClient } from './logClient.ts';
import { readAhead } from './readAhead.ts';

/**
 * The log contradicts what it has signed, or the checkpoint is not its own. The message says which;
 * `checkpoint` is what was received.
 */
export class Alarm extends Error {
  override readonly name = 'Alarm';
  readonly checkpoint: Buffer;
  constructor(message: string, checkpoint: Buffer) {
    super(message);
    this.checkpoint = checkpoint;
  }
}

/** The log is consistent with its earlier checkpoint; `added` events were checked. `bytes` are the checkpoint's. */
export type Checked = { bytes: Buffer; checkpoint: SignedCheckpoint; added: number };

type Client = Pick<LogClient, 'checkpoint' | 'tile' | 'entries'>;

type Options = {
  client: Client;
  key: VerifierKey;
  /** What the log has signed before; undefined if nothing is known of it. */
  earlier: TreeHead | undefined;
  now: () => Date;
  sleep: (ms: number) => Promise<void>;
  /** Called for each event that this service cannot have appended, or not at its time. */
  onProblem: (problem: string) => void;
  /** Called after each tile. */
  onProgress?: (done: { events: number; end: number }) => void;
};

/** How often a checkpoint with fewer events is fetched again: another instance may lag behind. */
const RETRIES = 5;
const RETRY_INTERVAL_MS = 1_000;

/**
 * Checks what the log signs now: its signature, that what it signed before is the beginning of it, and every
 * event since. @throws Alarm, LogUnavailable
 */
export async function checkLog(options: Options): Promise<Checked> {
  const { earlier = { size: 0, root: new MerkleTree().root() } } = options;
  const { bytes, checkpoint } = await fetchLatest(options, earlier.size);
  const { size, root } = checkpoint;
  const alarm = (message: string): Alarm => new Alarm(message, bytes);
  if (size < earlier.size)
    throw alarm(`rollback: the log has signed ${earlier.size} events, and now signs ${size}`);
  if (size === earlier.size && root !== earlier.root)
    throw alarm(`split view: the log has signed two different histories of ${size} events`);
  if (size > earlier.size) await checkAdded(earlier, checkpoint, { ...options, alarm });
  return { bytes, checkpoint, added: size - earlier.size };
}

type Fetched = { bytes: Buffer; checkpoint: SignedCheckpoint };

async function fetchLatest({ client, key, sleep }: Options, size: number): Promise<Fetched> {
  for (let retries = 0; ; retries++) {
    const fetched = await openFetched(await client.checkpoint(), key);
    if (fetched.checkpoint.size >= size || retries === RETRIES) return fetched;
    await sleep(RETRY_INTERVAL_MS);
  }
}

async function openFetched(bytes: Buffer, key: VerifierKey): Promise<Fetched> {
  try {
    return { bytes, checkpoint: await openCheckpoint(decodeUtf8(bytes), key) };
  } catch (error) {
    if (!(error instanceof NotVerified)) throw error;
    throw new Alarm(`false checkpoint: ${error.message}`, bytes);
  }
}

type Context = Options & { alarm: (message: string) => Alarm };

/** Checks the tree of the earlier checkpoint, and appends every event since to it. */
async function checkAdded(earlier: TreeHead, { size, root }: TreeHead, context: Context): Promise<void> {
  const { now, alarm, onProblem, onProgress } = context;
  const read = tileReader(context);
  const tree = await treeFromTiles(earlier.size, size, read);
  if (tree.root() !== earlier.root)
    throw alarm(
      (await rootFromTiles(size, read)) === root
        ? `fork: the first ${earlier.size} events are not those that the log has signed before`
        : 'false tiles: they do not have the root that the log signs',
    );
  const events = new EventCheck(now);
  const first = Math.floor(earlier.size / TILE_WIDTH);
  const last = Math.floor((size - 1) / TILE_WIDTH);
  for await (const { entries, index } of readAhead(first, last, (at) =>
    fetchEntries(at, size, read, context),
  )) {
    for (const [i, { entry, hash }] of entries.entries()) {
      const number = index * TILE_WIDTH + i + 1;
      const problem = events.problem(entry); // also of earlier ones, for the order of times
      if (number <= earlier.size) continue;
      tree.append(hash);
      if (problem !== undefined) onProblem(`event ${number}, ${problem}`);
    }
    onProgress?.({ events: tree.size, end: size });
  }
  if (tree.root() !== root) throw alarm('false tiles: the events do not have the root that the log signs');
}

type Entries = { index: number; entries: { entry: Buffer; hash: string }[] };

/** The entries of a tile of level 0, each with its hash, which is that of the tile. */
async function fetchEntries(
  index: number,
  size: number,
  read: ReadTile,
  { client, alarm }: Context,
): Promise<Entries> {
  const width = tileWidth(0, index, size);
  const [hashes, bundle] = await Promise.all([
    read({ level: 0, index, width }),
    client.entries(index, width),
  ]);
  const entries = parseEntries(bundle, alarm).map((entry) => ({ entry, hash: leafHash(entry) }));
  if (entries.length !== width)
    throw alarm(`false entries: ${tilePath('entries', index, width)} has ${entries.length} entries`);
  const leaves = hashesOfTile(hashes);
  const other = entries.findIndex(({ hash }, i) => hash !== leaves[i]);
  if (other !== -1)
    throw alarm(`false entries: event ${index * TILE_WIDTH + other + 1} is not the one in the log's tree`);
  return { index, entries };
}

function parseEntries(bundle: Buffer, alarm: Context['alarm']): Buffer[] {
  try {
    return parseEntryBundle(bundle);
  } catch (error) {
    throw alarm(`false entries: ${(error as Error).message}`);
  }
}

function tileReader({ client, alarm }: Context): ReadTile {
  return async (tile) => {
    const hashes = await client.tile(tile);
    if (hashes.length === tile.width * HASH_BYTES) return hashes;
    const path = tilePath(tile.level, tile.index, tile.width);
    throw alarm(`false tiles: ${path} has ${hashes.length} bytes`);
  };
}
