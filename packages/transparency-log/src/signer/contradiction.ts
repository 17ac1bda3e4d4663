import {
  consistencyProofFromTiles,
  formatTreeHead,
  isSameHead,
  type ReadTile,
  type TreeHead,
  verifyConsistency,
} from '@event-sourced/tlog';

/** The log contradicts a signed checkpoint: it has different events, or fewer. */
export class LogContradictsCheckpoint extends Error {
  override readonly name = 'LogContradictsCheckpoint';
  readonly signed: TreeHead;
  readonly head: TreeHead;
  constructor(signed: TreeHead, head: TreeHead) {
    super(`the log was signed as ${formatTreeHead(signed)}, and is now ${formatTreeHead(head)}`);
    this.signed = signed;
    this.head = head;
  }
}

/** @throws LogContradictsCheckpoint unless the tree with this head, whose tiles `read` reads, extends a signed one */
export async function assertExtends(
  signed: TreeHead | undefined,
  head: TreeHead,
  read: ReadTile,
): Promise<void> {
  if (!signed || isSameHead(signed, head)) return;
  if (signed.size < head.size) {
    const path = await consistencyProofFromTiles(signed.size, head.size, read);
    if (verifyConsistency(signed, head, path)) return;
  }
  throw new LogContradictsCheckpoint(signed, head);
}
