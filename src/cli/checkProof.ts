import { addAbortSignal } from 'node:stream';
import { printable } from '@event-sourced/transparency-log';
import { type CheckProofOptions, checkProof } from '@event-sourced/transparency-log/monitor';
import { type Context, write } from './context.ts';

export async function checkProofCommand(options: CheckProofOptions, context: Context): Promise<void> {
  const { input, output, signal } = context;
  await write(output, `${printable(await checkProof(addAbortSignal(signal, input), options))}\n`);
}
