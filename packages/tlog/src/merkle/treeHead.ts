/** A log of `size` events, and the root of its Merkle tree in hexadecimal. */
export type TreeHead = { size: number; root: string };

export const isSameHead = (a: TreeHead, b: TreeHead | undefined): boolean =>
  a.size === b?.size && a.root === b.root;

/** Formats a tree head as SIZE:ROOT. */
export function formatTreeHead({ size, root }: TreeHead): string {
  return `${size}:${root}`;
}

/** Parses a tree head, SIZE:ROOT; undefined if the text is malformed. */
export function parseTreeHead(text: string): TreeHead | undefined {
  const [, size, root = ''] = /^(\d{1,15}):([\da-fA-F]{64})$/.exec(text) ?? [];
  return size === undefined ? undefined : { size: Number(size), root: root.toLowerCase() };
}
