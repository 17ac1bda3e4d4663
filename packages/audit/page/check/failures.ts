import {
  leafHash,
  NotVerified,
  parseEntryBundle,
  TileMismatch,
  tileHashes,
  tileRoot,
} from '@event-sourced/tlog';
import { ApiError, errorMessage } from '../api.ts';
import { Contradiction } from '../readLog.ts';
import type { Fact, Result, Topic } from './checkState.ts';

/** Why a check has no result, or a bad one: only what contradicts a signature is bad. */
export function failure(error: unknown, topic: Topic): Result {
  // https://www.w3.org/TR/webcrypto-2/#dfn-normalize-an-algorithm
  if (error instanceof DOMException && error.name === 'NotSupportedError')
    return unknown(
      'This browser cannot verify signatures: its WebCrypto has no Ed25519. Chrome 137, Firefox 129 and Safari 17 have it.',
    );
  const text = errorMessage(error);
  if (error instanceof TileMismatch) return { verdict: 'bad', text, topic: 'tiles', ...mismatch(error) };
  if (error instanceof Contradiction) {
    const { topic, facts, line, index } = error;
    return { verdict: 'bad', text, topic, facts, line, index };
  }
  if (error instanceof NotVerified && error.kind === 'contradiction') return { verdict: 'bad', text, topic };
  const isUnanswered = error instanceof TypeError || (error instanceof ApiError && error.status >= 500);
  return unknown(isUnanswered ? `This could not be asked. ${text}` : text);
}

export const unknown = (text: string): Result => ({ verdict: 'unknown', text });

/** Describes a mismatch of tiles or entries: the hashes of the first differing entry, and the paths. */
function mismatch({ received }: TileMismatch): Pick<Result, 'facts' | 'paths'> {
  const paths = [...received.keys()].join(', ');
  const [[path = '', bytes] = [], [, tile] = []] = [...received];
  if (!bytes) return { paths };
  if (received.size === 1) return { paths, facts: [['Hash of the tile', tileRoot(bytes)]] };
  if (!path.startsWith('tile/entries/')) return { paths };
  const inTree = tileHashes(tile ?? new Uint8Array());
  const hashes = parseEntries(bytes).map(leafHash);
  const i = hashes.findIndex((hash, i) => hash !== inTree[i]);
  const facts: Fact[] = [
    ['Hash of the entry', hashes[i]],
    ['Hash in the tree', inTree[i]],
  ];
  return { paths, facts };
}

/** The entries of a bundle; none if it is malformed. */
function parseEntries(bundle: Uint8Array): Uint8Array[] {
  try {
    return parseEntryBundle(bundle);
  } catch {
    return [];
  }
}
