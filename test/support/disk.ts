import { closeSync, openSync, rmSync, statSync, truncateSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { tempDir } from '@event-sourced/testing/tempDir';
import { expectRefused } from './cli.ts';
import { canRun, MAIN, NODE, run, start } from './process.ts';

export const isRoot = process.getuid?.() === 0;
export const NOBODY = 65_534;
/** A user whom modes refuse, as they do not refuse root. */
export const READER = isRoot ? { uid: NOBODY, gid: NOBODY } : {};
const NAMESPACE = isRoot ? ['--mount'] : ['--map-root-user', '--mount'];
const MOUNT = 'mount -t tmpfs -o size=6m tmpfs "$0" && echo mounted && exec cat';
const inNamespace = (script: string, at: string) => ['unshare', ...NAMESPACE, 'sh', '-c', script, at];
export const canMount = canRun('a full disk', inNamespace(`${MOUNT} < /dev/null`, '/mnt'));

/** A small disk in the mount namespace of a process: it is invisible to others, and removed with it. */
export async function smallDisk() {
  const mountPoint = tempDir();
  const keeper = start({ command: inNamespace(MOUNT, mountPoint) });
  await keeper.printed(/mounted/);
  const into = isRoot ? ['--mount'] : ['--user', '--mount', '--preserve-credentials'];
  const visiblePath = `/proc/${keeper.pid}/root${mountPoint}`;
  /** A command that finds the disk. */
  const inside = (command: readonly string[]): string[] => [
    ...['nsenter', `--target=${keeper.pid}`, ...into],
    ...command,
  ];
  const ballast = join(visiblePath, 'ballast');
  return {
    dir: join(mountPoint, 'data'),
    /** The path of the same directory for this process. */
    visiblePath: join(visiblePath, 'data'),
    inside,
    /** The service. */
    command: inside([NODE, MAIN]),
    /** Leaves this number of bytes. */
    fill: (free = 0) => {
      fill(ballast);
      if (free > 0) truncateSync(ballast, statSync(ballast).size - free);
    },
    free: () => rmSync(ballast),
  };
}

/** Writes until the disk has no space for another byte. */
function fill(file: string): void {
  const fd = openSync(file, 'w');
  for (let size = 1024 * 1024; size >= 1; ) {
    try {
      writeSync(fd, Buffer.alloc(size));
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ENOSPC') throw error;
      size = Math.floor(size / 2);
    }
  }
  closeSync(fd);
}

/** Expects that a start fails with one line that contains `what`. */
export async function expectStartFailure(options: Parameters<typeof run>[0], what: string): Promise<string> {
  const ended = await run(options);
  expectRefused(ended, RegExp(RegExp.escape(what)));
  return ended.stderr;
}
