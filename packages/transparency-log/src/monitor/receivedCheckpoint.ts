import { formatTreeHead } from '../merkle/treeHead.ts';
import { openCheckpoint, type SignedCheckpoint } from '../notes/checkpoint.ts';
import type { VerifierKey } from '../notes/signedNote.ts';

/**
 * A checkpoint that the log has signed. `shownBy`: who showed it, if not the log; `mayBeAhead`: the log may not show it
 * yet, as it waits for cosignatures.
 */
export type ReceivedCheckpoint = SignedCheckpoint & {
  note: string;
  receivedAt: string;
  shownBy?: string | undefined;
  mayBeAhead?: boolean | undefined;
};

/** Verifies the signature of the log. @throws NotVerified */
export async function openReceived(
  { note, ...received }: Omit<ReceivedCheckpoint, keyof SignedCheckpoint>,
  key: VerifierKey,
): Promise<ReceivedCheckpoint> {
  return { ...(await openCheckpoint(note, key)), note, ...received };
}

export function largestOf(received: readonly ReceivedCheckpoint[]): ReceivedCheckpoint | undefined {
  return received.toSorted((one, other) => other.size - one.size)[0];
}

export const shownBy = (one: ReceivedCheckpoint): string => (one.shownBy ? ` (${one.shownBy})` : '');

/** SIZE:ROOT of a checkpoint, and who showed it. */
export const describe = (one: ReceivedCheckpoint): string => `${formatTreeHead(one)}${shownBy(one)}`;
