/** A slow machine can do this number of appends within the timeout of one call. */
const PORTION = 100;

/** Does something `count` times, a portion at a time. */
export async function inPortions(count: number, each: (i: number) => Promise<unknown>): Promise<void> {
  const all = Array.from({ length: count }, (_, i) => i);
  for (let i = 0; i < count; i += PORTION) await Promise.all(all.slice(i, i + PORTION).map(each));
}
