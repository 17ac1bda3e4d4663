import { type Static, Type } from 'typebox';
import { Compile } from 'typebox/compile';
import { parseRfc3339 } from '../time/rfc3339.ts';
import { openCheckpoint, type SignedCheckpoint } from '../transparency/checkpoint.ts';
import { NotVerified } from '../transparency/notVerified.ts';
import type { VerifierKey } from '../transparency/signedNote.ts';

/** A checkpoint as it was received, and when. */
export type ReceivedCheckpoint = SignedCheckpoint & { note: string; receivedAt: string };

/** What a monitor knows of a log. */
export type State = {
  /** The last checkpoint whose events were all checked; undefined before the first one. */
  checkpoint: ReceivedCheckpoint | undefined;
  /** Other checkpoints that the log has signed, and which it must still show to be consistent. */
  pending: readonly ReceivedCheckpoint[];
  /** The partial tiles of the checkpoint's tree, by path: what the log may not show any more after a rollback. */
  tiles: ReadonlyMap<string, Buffer>;
  /** The latest time of an event up to the checkpoint, in milliseconds since 1970. */
  latestTime: number | undefined;
};

export const NEW_STATE: State = {
  checkpoint: undefined,
  pending: [],
  tiles: new Map(),
  latestTime: undefined,
};

const FORMAT = 'plant-store monitor 1';

const Received = Type.Object({ receivedAt: Type.String(), note: Type.String() });
const isFile = Compile(
  Type.Object({
    format: Type.Literal(FORMAT),
    checkpoint: Type.Union([Received, Type.Null()]),
    pending: Type.Array(Received),
    tiles: Type.Record(Type.String(), Type.String()),
    latestTime: Type.Union([
      Type.Refine(Type.String(), (text) => parseRfc3339(text) !== undefined),
      Type.Null(),
    ]),
  }),
);

/** The text of a state file. */
export function formatState({ checkpoint, pending, tiles, latestTime }: State): string {
  const received = ({ receivedAt, note }: ReceivedCheckpoint): Static<typeof Received> => ({
    receivedAt,
    note,
  });
  const file = {
    format: FORMAT,
    checkpoint: checkpoint ? received(checkpoint) : null,
    pending: pending.map(received),
    tiles: Object.fromEntries([...tiles].map(([path, hashes]) => [path, hashes.toString('base64')])),
    latestTime: latestTime === undefined ? null : new Date(latestTime).toISOString(),
  };
  return `${JSON.stringify(file, null, 2)}\n`;
}

/** Parses the text of a state file; the signatures are verified again. @throws NotVerified */
export async function parseState(text: string, key: VerifierKey): Promise<State> {
  const file = parseJson(text);
  if (!isFile.Check(file)) throw new NotVerified('it is not the state of a monitor');
  const open = async ({ receivedAt, note }: Static<typeof Received>): Promise<ReceivedCheckpoint> => ({
    ...(await openCheckpoint(note, key)),
    note,
    receivedAt,
  });
  return {
    checkpoint: file.checkpoint ? await open(file.checkpoint) : undefined,
    pending: await Promise.all(file.pending.map(open)),
    tiles: new Map(Object.entries(file.tiles).map(([path, hashes]) => [path, Buffer.from(hashes, 'base64')])),
    latestTime: file.latestTime === null ? undefined : parseRfc3339(file.latestTime),
  };
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw new NotVerified('it is not JSON');
  }
}
