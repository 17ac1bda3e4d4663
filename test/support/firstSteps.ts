import { expect } from 'vitest';
import { run } from './process.ts';

/** The commands that a first start prints. */
export const curls = (output: string): string[] =>
  output.split('\n').filter((line) => line.startsWith('curl'));

/** Runs a line as if it were pasted into a shell in the project's folder. */
export async function paste(line: string): Promise<unknown> {
  const { code, stdout, stderr } = await run({ command: ['sh', '-c', line] });
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
  return JSON.parse(stdout);
}
