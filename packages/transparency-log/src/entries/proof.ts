import { type EventLog, type Position, type RecordedEvent, readToEnd, START } from '@event-sourced/event-log';
import { MemoryTree } from '../merkle/memoryTree.ts';
import { leafHash, MerkleTree } from '../merkle/merkleTree.ts';
import { consistencyProofFromTiles } from '../merkle/tiles.ts';
import { isSameHead, type TreeHead } from '../merkle/treeHead.ts';
import { type ProvenTree, proveConsistency, proveInclusion } from '../notes/prove.ts';
import type { CheckpointSigner } from '../signer/checkpointSigner.ts';
import { appendLeaves } from './appendLeaves.ts';
import { leafText } from './leaf.ts';

/** The log does not have the entry or the size to prove; the message names it. */
export class NotProven extends Error {
  override readonly name = 'NotProven';
}

/** Inclusion of an event in the first `size` events, or consistency of the first `from` and the first `to` events. */
export type Claim =
  | { isEvent: (event: RecordedEvent) => boolean; notFound: string; size?: number | undefined }
  | { from: number; to?: number | undefined };

/** The text of a proof, computed from the log without its Merkle tree. @throws NotProven */
export async function proofFromLog(
  log: EventLog,
  claim: Claim,
  { signer, signal }: { signer: Pick<CheckpointSigner, 'sign' | 'cosigned'>; signal: AbortSignal },
): Promise<string> {
  const tree = new MemoryTree();
  let last: Position = START;
  let found: { index: number; entry: Buffer } | undefined;
  const readLog = async (): Promise<void> => {
    for await (const { events } of readToEnd(log, { after: last, signal }))
      for (const event of events) {
        const { text } = leafText(event);
        if (!found && 'isEvent' in claim && claim.isEvent(event))
          found = { index: tree.size, entry: Buffer.from(text) };
        tree.append(leafHash(text));
        last = event.position;
      }
    signal.throwIfAborted();
  };
  await readLog();
  const cosigned = await signer.cosigned();
  const isCosigned = cosigned && found && found.index < cosigned.size && cosigned.size <= tree.size;
  const newest = isCosigned ? cosigned.size : tree.size;
  const size = ('isEvent' in claim ? claim.size : claim.to) ?? newest;
  assertSize(tree.size, size);
  const proven: ProvenTree = {
    head: await tree.head(size),
    read: tree.read,
    sign: async (head) => {
      const signed = await signer.sign(head, async (from, to) => {
        if (to > tree.size) await readLog(); // meanwhile the service has signed more events
        return to > tree.size ? undefined : consistencyProofFromTiles(from, to, tree.read);
      });
      return (cosigned && isSameHead(cosigned, head) ? cosigned : signed).note;
    },
  };
  if ('from' in claim) {
    assertSize(tree.size, claim.from);
    return proveConsistency(claim.from, proven);
  }
  if (!found || found.index >= size) throw new NotProven(`${claim.notFound} among the first ${size} events`);
  return proveInclusion(found.entry, found.index, proven);
}

/** The root of the first `size` events, or of all events. @throws NotProven if the log has fewer events */
export async function rootOfLog(log: EventLog, signal: AbortSignal, size?: number): Promise<TreeHead> {
  const tree = new MerkleTree();
  if (size !== 0) await appendLeaves(tree, log, { after: START, size, signal });
  assertSize(tree.size, size);
  return { size: tree.size, root: tree.root() };
}

function assertSize(events: number, size = events): void {
  if (size > events) throw new NotProven(`the log has ${events} events, fewer than ${size}`);
}
