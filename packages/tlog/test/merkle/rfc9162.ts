import { hash } from 'node:crypto';

// The definitions of RFC 9162 with their names, without optimisation, as a reference. Bytes are in hexadecimal.

type D = readonly (string | Uint8Array)[];

/** MTH of section 2.1.1, over the leaves: bytes, or texts. */
export function MTH(D: D): string {
  const [first] = D;
  if (first === undefined) return HASH();
  if (D.length === 1) return HASH('00', Buffer.from(first as string).toString('hex'));
  const k = splitOf(D.length);
  return HASH('01', MTH(D.slice(0, k)), MTH(D.slice(k)));
}

/** PATH of section 2.1.3.1. */
export function PATH(m: number, D: D): string[] {
  if (D.length === 1) return [];
  const k = splitOf(D.length);
  return m < k
    ? [...PATH(m, D.slice(0, k)), MTH(D.slice(k))]
    : [...PATH(m - k, D.slice(k)), MTH(D.slice(0, k))];
}

/** PROOF of section 2.1.4.1. */
export function PROOF(m: number, D: D): string[] {
  return SUBPROOF(m, D, true);
}

function SUBPROOF(m: number, D: D, b: boolean): string[] {
  if (m === D.length) return b ? [] : [MTH(D)];
  const k = splitOf(D.length);
  return m <= k
    ? [...SUBPROOF(m, D.slice(0, k), b), MTH(D.slice(k))]
    : [...SUBPROOF(m - k, D.slice(k), false), MTH(D.slice(0, k))];
}

/** The root to which a path leads, by inverting PATH; undefined if its length differs from that of PATH. */
export function rootOfPath(m: number, n: number, leaf: string, path: readonly string[]): string | undefined {
  if (m >= n) return undefined;
  if (n === 1) return path.length === 0 ? leaf : undefined;
  const k = splitOf(n);
  const [rest, last] = [path.slice(0, -1), path.at(-1)];
  const below = m < k ? rootOfPath(m, k, leaf, rest) : rootOfPath(m - k, n - k, leaf, rest);
  if (!below || !last) return undefined;
  return m < k ? HASH('01', below, last) : HASH('01', last, below);
}

/** The roots of both trees to which a proof leads from the root of the earlier one, by inverting PROOF. */
export function rootsOfProof(
  m: number,
  n: number,
  old: string,
  proof: readonly string[],
  b = true,
): [earlier: string, later: string] | undefined {
  if (m < 1 || m > n) return undefined;
  const [rest, last] = [proof.slice(0, -1), proof.at(-1)];
  if (m === n) {
    const root = b ? old : last;
    return root && proof.length === (b ? 0 : 1) ? [root, root] : undefined;
  }
  const k = splitOf(n);
  const below = m <= k ? rootsOfProof(m, k, old, rest, b) : rootsOfProof(m - k, n - k, old, rest, false);
  if (!below || !last) return undefined;
  const [earlier, later] = below;
  return m <= k ? [earlier, HASH('01', later, last)] : [HASH('01', last, earlier), HASH('01', last, later)];
}

/** The largest power of two smaller than n. */
function splitOf(n: number): number {
  let k = 1;
  while (2 * k < n) k = 2 * k;
  return k;
}

function HASH(...parts: string[]): string {
  return hash('sha256', Buffer.from(parts.join(''), 'hex'), 'hex');
}

/**
 * The leaves of the reference tree of Certificate Transparency, from which its published vectors are computed
 * (https://github.com/transparency-dev/merkle/blob/main/testonly/constants.go). They are bytes, and leaves
 * here are text; all of them are below 0x80, so they are valid UTF-8.
 */
export const REFERENCE_LEAVES = [
  '',
  '00',
  '10',
  '2021',
  '3031',
  '40414243',
  '5051525354555657',
  '606162636465666768696a6b6c6d6e6f',
].map((hex) => Buffer.from(hex, 'hex').toString());

/** The roots of the trees of its first 0 to 8 leaves. */
export const REFERENCE_ROOTS = [
  'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855',
  '6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d',
  'fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125',
  'aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77',
  'd37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7',
  '4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4',
  '76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef',
  'ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c',
  '5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328',
];
