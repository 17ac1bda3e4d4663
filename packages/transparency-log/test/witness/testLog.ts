import { leafHash, MerkleTree } from '../../src/merkle/merkleTree.ts';
import { consistencyPath } from '../../src/merkle/proofs.ts';
import { formatConsistencyProof } from '../../src/notes/proof.ts';
import { signCheckpoint, toVerifierKey } from '../../src/sign/signCheckpoint.ts';
import { keyNamed } from '../notes/keys.ts';

export const ORIGIN = 'log.example';
/** The SHA-256 of the origin. */
export const LOG_ID = 'd7612c54297eaa3e5a7756b17ce3adc5bed251af8059d72bbb8b0075c67b85e9';
export const LOG_KEY = toVerifierKey(ORIGIN, keyNamed('log'));
export const WITNESS = { name: 'witness.example/w1', key: keyNamed('w1') };

/** An add-checkpoint request of a log whose entries are these letters, from the size `from` to `size`. */
export function request(
  letters: string,
  { from = 0, size = letters.length, origin = ORIGIN, key = keyNamed('log') } = {},
): string {
  const rootOf = (start: number, end: number): string => {
    const tree = new MerkleTree();
    for (const letter of letters.slice(start, end)) tree.append(leafHash(letter));
    return tree.root();
  };
  const path = from > size ? [] : consistencyPath(from, size).map(({ start, end }) => rootOf(start, end));
  const checkpoint = signCheckpoint({ size, root: rootOf(0, size) }, { origin, key });
  return formatConsistencyProof({ from, path, checkpoint });
}

export const checkpointOf = (text: string): string => text.slice(text.indexOf('\n\n') + 2);
