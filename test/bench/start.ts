import { startService, stopContender } from './contender.ts';
import type { Bench } from './setUp.ts';

/** Measures the time from the start of the process until it is ready, with a full and an empty log. */
export async function measureStart({ options, keyFile, results, emptyLog, fullLog }: Bench): Promise<void> {
  const [empty, full] = [emptyLog(), await fullLog()];
  const readyAfter = async (data: string): Promise<number> => {
    const started = performance.now();
    const service = await startService({ DATA_DIR: data, KEY_FILE: keyFile });
    const took = performance.now() - started;
    await stopContender(service);
    return took;
  };
  await readyAfter(full); // builds the view
  const more: number[] = [];
  for (let round = 0; round < options.rounds; round++)
    more.push(((await readyAfter(full)) - (await readyAfter(empty))) / 1_000);
  results.addFigure(`start with ${options.events} events: seconds more than with none`, '< 1', more);
}
