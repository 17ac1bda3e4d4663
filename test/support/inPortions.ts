/** A slow machine must be able to do so many appends in the time of one call. */
const PORTION = 100;

/** Does something `count` times, a portion at a time. */
export async function inPortions(count: number, each: (i: number) => Promise<unknown>): Promise<void> {
  const all = Array.from({ length: count }, (_, i) => i);
  for (let i = 0; i < count; i += PORTION) await Promise.all(all.slice(i, i + PORTION).map(each));
}
