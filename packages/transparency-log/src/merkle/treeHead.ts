/** A log of `size` events, and the root of its Merkle tree in hexadecimal. */
export type TreeHead = { size: number; root: string };

export const isSameHead = (one: TreeHead, other: TreeHead | undefined): boolean =>
  one.size === other?.size && one.root === other.root;

/** The text SIZE:ROOT of a tree head. */
export function formatTreeHead({ size, root }: TreeHead): string {
  return `${size}:${root}`;
}

/** The tree head of a text SIZE:ROOT; undefined if it is another one. */
export function parseTreeHead(text: string): TreeHead | undefined {
  const [, size, root = ''] = /^(\d{1,15}):([\da-fA-F]{64})$/.exec(text) ?? [];
  return size === undefined ? undefined : { size: Number(size), root: root.toLowerCase() };
}
