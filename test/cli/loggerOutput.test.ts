import { spawnSync } from 'node:child_process';
import { closeSync, constants, openSync, readSync } from 'node:fs';
import { join } from 'node:path';
import { tempDir } from '@event-sourced/testing/tempDir';
import { expect, onTestFinished, test, vi } from 'vitest';
import { loggerOutput } from '../../src/cli/loggerOutput.ts';

const LINE = `${'x'.repeat(9_999)}\n`;
/** More lines than a pipe and the queue hold. */
const LINES = 200;

/** A pipe that does not block. */
function pipe() {
  const path = join(tempDir(), 'pipe');
  expect(spawnSync('mkfifo', [path]).status).toBe(0);
  const reader = openSync(path, constants.O_RDWR | constants.O_NONBLOCK); // never at the end of the file
  onTestFinished(() => closeSync(reader));
  const fd = openSync(path, constants.O_WRONLY | constants.O_NONBLOCK); // the output closes it
  let text = '';
  const read = (): string => {
    const bytes = Buffer.alloc(1024 * 1024);
    try {
      for (;;) text += bytes.toString('utf8', 0, readSync(reader, bytes));
    } catch (error) {
      expect(error).toMatchObject({ code: 'EAGAIN' });
    }
    return text;
  };
  return { fd, read };
}

test('lines that a full pipe does not take are dropped and counted, and the others are written in order', async () => {
  const { fd, read } = pipe();
  const dropped: number[] = [];
  const output = loggerOutput(fd, (lines) => {
    dropped.push(lines);
    output.write('reported\n');
  });
  for (let i = 0; i < LINES; i++) output.write(`${i} ${LINE}`);
  await expect.poll(() => read()).toMatch(/reported\n$/);
  output.write('next\n');
  expect(await output.end()).toBe(true);
  const lines = read().trimEnd().split('\n');
  expect(lines.slice(-2)).toEqual(['reported', 'next']);
  const kept = LINES - (dropped[0] ?? 0);
  expect(dropped).toHaveLength(1);
  expect(kept).toBeLessThan(LINES);
  expect(lines.slice(0, -2).map((line) => Number.parseInt(line, 10))).toEqual(
    Array.from({ length: kept }, (_, i) => i),
  );
});

test('what waits when the output ends is written if it is read, and given up if it is not', async () => {
  const LINES = 10; // more than a pipe has room for
  const clock = vi.spyOn(performance, 'now').mockReturnValue(0);
  const stuck = vi.spyOn(AbortSignal, 'timeout').mockReturnValue(new AbortController().signal);
  onTestFinished(() => {
    clock.mockRestore();
    stuck.mockRestore();
  });
  const [slow, unread] = [pipe(), pipe()];
  const outputs = [slow, unread].map(({ fd }) => loggerOutput(fd, () => {}));
  for (const output of outputs) for (let i = 0; i < LINES; i++) output.write(LINE);
  const [written, givenUp] = outputs.map((output) => output.end());
  await expect.poll(() => slow.read()).toHaveLength(LINES * LINE.length);
  expect(await written).toBe(true);
  clock.mockReturnValue(60_000);
  expect(await givenUp).toBe(true);
  expect(unread.read().length).toBeLessThan(LINES * LINE.length);
});

test('after its end, lines are ignored', async () => {
  const { fd, read } = pipe();
  const output = loggerOutput(fd, () => {});
  output.write('last\n');
  await output.end();
  output.write('late\n');
  expect(await output.end()).toBe(true);
  expect(read()).toBe('last\n');
});
