import { addAbortSignal } from 'node:stream';
import { type CheckProofOptions, checkProof } from '@event-sourced/transparency-log/monitor';
import { type Context, write } from './context.ts';

export async function checkProofCommand(options: CheckProofOptions, context: Context): Promise<void> {
  const { input, output, print, signal } = context;
  await write(output, `${await checkProof(addAbortSignal(signal, input), options, print)}\n`);
}
