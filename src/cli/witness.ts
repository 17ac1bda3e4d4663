import { runWitness, type WitnessCommandOptions } from '@event-sourced/transparency-log/witness';
import { type Context, write } from './context.ts';

/** Cosigns the checkpoints of logs, which can be other ones than this service's, until a signal stops it. */
export async function witnessCommand(options: WitnessCommandOptions, context: Context): Promise<void> {
  const { output, print, signal } = context;
  await runWitness(options, { write: (text) => write(output, text), print, signal });
}
