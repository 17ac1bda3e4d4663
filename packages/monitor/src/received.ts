import { type Checkpoint, formatTreeHead, openCheckpoint, type VerifierKey } from '@event-sourced/tlog';

/** A checkpoint that the log has signed, and its source. */
export type Received = Checkpoint & {
  receivedAt: string;
  /** The source, if it is not the log itself. */
  shownBy?: string | undefined;
  /** The log may not serve the checkpoint yet, since it waits for cosignatures. */
  mayBeAhead?: boolean | undefined;
};

/** Verifies the signature of the log. @throws NotVerified */
export async function openReceived(
  received: Omit<Received, 'origin' | 'size' | 'root'>,
  key: VerifierKey,
): Promise<Received> {
  return { ...(await openCheckpoint(received.note, key)), ...received };
}

export function findLargest(received: readonly Received[]): Received | undefined {
  return received.toSorted((a, b) => b.size - a.size)[0];
}

export const shownBy = (one: Received): string => (one.shownBy ? ` (${one.shownBy})` : '');

/** SIZE:ROOT of a checkpoint, and its source. */
export const describe = (one: Received): string => `${formatTreeHead(one)}${shownBy(one)}`;
