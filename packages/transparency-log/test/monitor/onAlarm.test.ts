import { chmodSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { tempDir } from '@event-sourced/testing/tempDir';
import { expect, test, vi } from 'vitest';
import { runOnAlarm } from '../../src/monitor/onAlarm.ts';

/** A program that is a shell script, in a directory of its own, which it can write to. */
function program(script: string) {
  const dir = tempDir();
  const path = join(dir, 'alarm.sh');
  writeFileSync(path, `#!/bin/sh\ncd "$(dirname "$0")" || exit\n${script}\n`);
  chmodSync(path, 0o755);
  return { path, file: (name: string): string => readFileSync(join(dir, name), 'utf8') };
}

test('the program gets the text on its standard input, and not the token', async () => {
  vi.stubEnv('TOKEN', 'secret');
  const { path, file } = program('cat > text; env > environment');
  await runOnAlarm(path, 'ALARM: fork\n');
  vi.unstubAllEnvs();
  expect(file('text')).toBe('ALARM: fork\n');
  expect(file('environment')).toContain('PATH=');
  expect(file('environment')).not.toContain('secret');
});

test('a program that does not read its input, fails, or hangs is reported', async () => {
  const text = 'x'.repeat(1_000_000);
  await runOnAlarm(program('exit 0').path, text);
  await expect(runOnAlarm(program('exit 3').path, text)).rejects.toThrow('exit code 3');
  await expect(runOnAlarm(program('exec sleep 600').path, text, 100)).rejects.toThrow(/^ended by SIGKILL/);
  await expect(runOnAlarm('/nonexistent', text)).rejects.toThrow(/^spawn /);
});
