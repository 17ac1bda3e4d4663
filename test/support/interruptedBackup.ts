import { existsSync, readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { expect } from 'vitest';
import { runCli } from './cli.ts';
import { rowsIn } from './logs.ts';
import { MAIN, NODE, type Process, start } from './process.ts';
import { tempDir } from './tempDir.ts';

/**
 * Starts a backup of a log to `copy.db` in its own directory, and interrupts it `after` milliseconds after it
 * has created its draft. If it completes before, another one is started and interrupted after half of that time.
 */
export async function interruptBackup(dir: string, interrupt: (copying: Process) => void, after = 0) {
  for (let lifetime = after; ; lifetime = Math.floor(lifetime / 2)) {
    const place = tempDir();
    const file = join(place, 'copy.db');
    const copying = start({ command: [NODE, MAIN, 'backup', file], env: { DATA_DIR: dir } });
    let isOver = false;
    void copying.ended.then(() => {
      isOver = true;
    });
    const hasStarted = (): boolean => readdirSync(place).some((name) => sizeOf(join(place, name)) > 0);
    while (!isOver && !hasStarted()) await pause(1);
    await pause(lifetime);
    if (!isOver) interrupt(copying);
    const ended = { ...(await copying.ended), stdout: copying.stdout(), stderr: copying.stderr() };
    if (!existsSync(file)) return { ...ended, place };
    if (ended.signal === null) {
      expect(ended).toMatchObject({ code: 0, stdout: expect.stringMatching(/^\d+:[\da-f]{64}\n$/) });
      expect(readdirSync(place)).toEqual(['copy.db']);
    }
  }
}

/** Bytes; 0 if the file was removed meanwhile. */
const sizeOf = (file: string): number => statSync(file, { throwIfNoEntry: false })?.size ?? 0;

/** Expects only a directory that is named as partial, and that the next backup beside them has all events. */
export async function expectOnlyPartial(place: string, { dir, events }: { dir: string; events: number }) {
  const rest = readdirSync(place);
  expect(rest).toEqual([expect.stringMatching(/^copy\.db\.[\da-f-]{36}\.partial$/)]);
  const file = join(place, 'copy.db');
  expect(await runCli(['backup', file], { DATA_DIR: dir })).toMatchObject({ code: 0 });
  expect(readdirSync(place).sort()).toEqual(['copy.db', ...rest].sort());
  expect(rowsIn(file)).toHaveLength(events);
}
