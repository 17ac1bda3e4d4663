import type { Rate } from './load.ts';
import type { Results } from './results.ts';

/** A load on a running server. */
export type Job = { name: string; measure: () => Promise<Rate> };

/** Measures every job in every round, in turns from the first and from the last, after a round to warm up. */
export async function runRounds(jobs: readonly Job[], rounds: number, results: Results): Promise<void> {
  for (let round = 0; round <= rounds; round++) {
    console.log(round === 0 ? 'warming up' : `round ${round} of ${rounds}`);
    for (const { name, measure } of round % 2 === 1 ? jobs : jobs.toReversed()) {
      const rate = await measure();
      if (round > 0) results.addRate(name, rate);
    }
  }
}
