import { formatTreeHead } from '../merkle/treeHead.ts';
import { type Checkpoint, openCheckpoint } from '../notes/checkpoint.ts';
import type { VerifierKey } from '../notes/signedNote.ts';

/** How a checkpoint was received; it is in the state of a monitor. */
export type Received = {
  note: string;
  receivedAt: string;
  /** Who showed it, if not the log. */
  shownBy?: string | undefined;
  /** The log may not show it yet, as it waits for cosignatures. */
  mayBeAhead?: boolean | undefined;
};

/** A checkpoint that the log has signed. */
export type ReceivedCheckpoint = Checkpoint & Received;

/** Verifies the signature of the log. @throws NotVerified */
export async function openReceived(received: Received, key: VerifierKey): Promise<ReceivedCheckpoint> {
  return { ...(await openCheckpoint(received.note, key)), ...received };
}

export function largestOf(received: readonly ReceivedCheckpoint[]): ReceivedCheckpoint | undefined {
  return received.toSorted((one, other) => other.size - one.size)[0];
}

export const shownBy = (one: ReceivedCheckpoint): string => (one.shownBy ? ` (${one.shownBy})` : '');

/** SIZE:ROOT of a checkpoint, and who showed it. */
export const describe = (one: ReceivedCheckpoint): string => `${formatTreeHead(one)}${shownBy(one)}`;
