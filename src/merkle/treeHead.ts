/** A log of `size` events, and the root of its Merkle tree in hexadecimal. */
export type TreeHead = { size: number; root: string };
