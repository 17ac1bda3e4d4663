import { type Contender, residentMemory } from './contender.ts';
import { measureLoad, type Rate } from './load.ts';
import { MAIN_CONNECTIONS, postName } from './names.ts';
import { longestStall, median } from './results.ts';
import { startServices } from './servers.ts';
import { type Bench, POSTING_USERS } from './setUp.ts';

const SAMPLE_INTERVAL_MS = 1_000;

/** Measures the memory of the service while it is posted to at full speed; also that of `--against`, afterwards. */
export async function measureMemory(bench: Bench, seconds: number): Promise<void> {
  const { results, emptyLog } = bench;
  await using resources = new AsyncDisposableStack();
  for (const { name, contender } of await startServices(bench, resources, emptyLog)) {
    console.log(`POST to ${name} for ${seconds} s`);
    const load = { method: 'POST', connections: MAIN_CONNECTIONS, users: POSTING_USERS, seconds } as const;
    const { rate, samples } = await sampled(contender, () => measureLoad(bench, contender, load));
    results.addRate(postName(name), rate);
    const tenths = Array.from({ length: 10 }, (_, i) => median(tenthOf(samples, i)));
    console.log(`RSS in MiB, median of each tenth: ${tenths.map(Math.round).join(' ')}`);
    const [third = Number.NaN, last = Number.NaN] = [tenths[2], tenths[9]];
    results.addFigure(`POST for ${seconds} s: RSS of ${name}, last tenth / third`, 'flat', [last / third]);
    results.addFigure(`POST for ${seconds} s: longest event-loop stall, ms, ${name}`, '≤ 10', [
      longestStall(rate),
    ]);
  }
}

async function sampled(
  contender: Contender,
  measure: () => Promise<Rate>,
): Promise<{ rate: Rate; samples: number[] }> {
  const samples: number[] = [];
  const timer = setInterval(() => samples.push(residentMemory(contender)), SAMPLE_INTERVAL_MS);
  try {
    return { rate: await measure(), samples };
  } finally {
    clearInterval(timer);
  }
}

const tenthOf = (samples: readonly number[], i: number): number[] =>
  samples.slice(Math.floor((samples.length * i) / 10), Math.floor((samples.length * (i + 1)) / 10));
