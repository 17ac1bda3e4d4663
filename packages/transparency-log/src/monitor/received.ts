import { formatTreeHead } from '../merkle/treeHead.ts';
import { type Checkpoint, openCheckpoint } from '../notes/checkpoint.ts';
import type { VerifierKey } from '../notes/signedNote.ts';

/** A checkpoint that the log has signed, and how it was received. */
export type Received = Checkpoint & {
  receivedAt: string;
  /** Who showed it, if not the log. */
  shownBy?: string | undefined;
  /** The log may not show it yet, as it waits for cosignatures. */
  mayBeAhead?: boolean | undefined;
};

/** Verifies the signature of the log. @throws NotVerified */
export async function openReceived(
  received: Omit<Received, 'origin' | 'size' | 'root'>,
  key: VerifierKey,
): Promise<Received> {
  return { ...(await openCheckpoint(received.note, key)), ...received };
}

export function largestOf(received: readonly Received[]): Received | undefined {
  return received.toSorted((one, other) => other.size - one.size)[0];
}

export const shownBy = (one: Received): string => (one.shownBy ? ` (${one.shownBy})` : '');

/** SIZE:ROOT of a checkpoint, and who showed it. */
export const describe = (one: Received): string => `${formatTreeHead(one)}${shownBy(one)}`;
