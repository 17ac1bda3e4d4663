import {
  chmodSync,
  chownSync,
  cpSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { tempDir } from '@event-sourced/testing/tempDir';
import { expect } from 'vitest';
import { createCheckout } from './checkout.ts';
import { JOB_USER } from './jobs.ts';
import { shellBlocksOf } from './markdown.ts';
import { NODE, ROOT, run } from './process.ts';

// The commands of a page run in a shell. What would change the machine, or needs a cluster or containers, is a stub that prints
// how it was called: of those commands, only the form is tested. As root, commands and jobs really run as another user, one
// that exists.

/** A checkout, in which the blocks of a section of a page are pasted, and directories in place of /etc and /var/lib. */
export function machine(section: string, page = 'deploying.md') {
  const dir = tempDir();
  const checkout = join(dir, 'plant-store');
  const dirs = [
    'bin',
    'etc/systemd/system',
    'usr/local/bin',
    'usr/local/sbin',
    'var/lib',
    'var/backups',
    'plant-store',
  ];
  for (const name of dirs) mkdirSync(join(dir, name), { recursive: true });
  createCheckout(checkout);
  // Directories of its own, whose modes the commands change.
  for (const name of ['packages', 'docs', 'node_modules']) rmSync(join(checkout, name));
  for (const name of ['packages', 'docs'])
    cpSync(join(ROOT, name), join(checkout, name), { recursive: true });
  mkdirSync(join(checkout, 'node_modules'));
  for (const name of readdirSync(join(ROOT, 'node_modules')))
    symlinkSync(join(ROOT, 'node_modules', name), join(checkout, 'node_modules', name));
  cpSync(join(ROOT, 'deploy'), join(checkout, 'deploy'), { recursive: true });
  chmodSync(dir, 0o755);
  symlinkSync(NODE, join(dir, 'usr/local/bin/node'));
  const stub = (name: string, script: string, where = 'bin') => {
    writeFileSync(join(dir, where, name), `#!/bin/sh\n${script}\n`);
    chmodSync(join(dir, where, name), 0o755);
  };
  for (const name of ['npm', 'git', 'useradd', 'systemctl', 'docker', 'kubectl'])
    stub(name, `echo "${name} $*"`);
  const asUser: Record<string, string> = JOB_USER
    ? {
        '-o plant-store -g plant-store': `-o ${JOB_USER.uid} -g ${JOB_USER.gid}`,
        'runuser -u plant-store ': `runuser -u ${JOB_USER.name} `,
      }
    : {};
  if (!JOB_USER) {
    // Only root can give files to another user, and be one.
    const withoutOwner =
      'for arg do shift; case $arg in -o | -g | plant-store) ;; *) set -- "$@" "$arg" ;; esac; done';
    stub('install', `${withoutOwner}; exec /usr/bin/install "$@"`);
    stub('runuser', '[ "$1 $2 $3" = "-u plant-store --" ] && shift 3 && exec "$@"', 'usr/local/sbin');
  }
  const blocks = shellBlocksOf(readFileSync(join(ROOT, 'docs', page), 'utf8'), section);
  expect(blocks).not.toEqual([]);
  /** A text with the directories of this machine. */
  const moved = (text: string, more: Record<string, string> = {}): string =>
    Object.entries({
      '/opt/plant-store': checkout,
      '/etc/': `${dir}/etc/`,
      '/usr/local/': `${dir}/usr/local/`,
      '/var/lib/': `${dir}/var/lib/`,
      '/var/backups/': `${dir}/var/backups/`,
      ...more,
    }).reduce((to, [from, by]) => to.replaceAll(from, by), text);
  for (const name of ['install', 'plant-store']) {
    const file = join(checkout, 'deploy/systemd', name);
    writeFileSync(file, moved(readFileSync(file, 'utf8'), asUser));
  }
  const data = join(dir, 'var/lib/plant-store');
  return {
    dir,
    checkout,
    blocks,
    stub,
    moved,
    /** The data directory, as systemd creates it. */
    createDataDir(): string {
      mkdirSync(data, { mode: 0o700 });
      if (JOB_USER) chownSync(data, JOB_USER.uid, JOB_USER.gid);
      return data;
    },
    /** Pastes blocks into the shell of an installer with the umask 077; returns what they print, line by line. */
    async paste(pasted = blocks, replaced: Record<string, string> = {}, env = {}): Promise<string[]> {
      const script = moved(pasted.join(''), { ...asUser, ...replaced });
      const shell = `umask 077 && cd '${checkout}' && PATH='${dir}/bin:${dir}/usr/local/sbin:'$PATH && set -e\n${script}`;
      const { code, stdout, stderr } = await run({ env, command: ['sh', '-c', shell] });
      expect({ code, stderr: code === 0 ? '' : stderr }).toEqual({ code: 0, stderr: '' });
      return stdout.trimEnd().split('\n');
    },
    read: (file: string) => readFileSync(join(dir, file), 'utf8'),
  };
}
