import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chownSync, globSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { freePort } from '../packages/node/src/testing/index.ts';

/** The programs of Debian's newest PostgreSQL; undefined if none is installed. */
export const POSTGRESQL = globSync('/usr/lib/postgresql/*/bin/postgres')
  .map(dirname)
  .sort((a, b) => a.localeCompare(b, 'en', { numeric: true }))
  .at(-1);

/** Starts a new cluster with the default configuration, of the user bench, without a password. */
export async function startPostgreSql(programs: string) {
  const dir = mkdtempSync(join(tmpdir(), 'plant-bench-postgresql-'));
  // PostgreSQL does not run as root.
  const owner = process.getuid?.() === 0 ? { uid: idOf('-u'), gid: idOf('-g') } : {};
  if (owner.uid !== undefined) chownSync(dir, owner.uid, owner.gid);
  const data = join(dir, 'data');
  const options = { cwd: dir, stdio: 'ignore', ...owner } as const;
  execFileSync(join(programs, 'initdb'), ['-D', data, '-U', 'bench', '-A', 'trust'], options);
  const address = { PGHOST: '127.0.0.1', PGPORT: `${await freePort()}`, PGUSER: 'bench' };
  const listen = ['-h', address.PGHOST, '-p', address.PGPORT, '-k', ''];
  const child = spawn(join(programs, 'postgres'), ['-D', data, ...listen], options);
  const env = { ...process.env, ...address };
  while (!isReady()) {
    if (child.exitCode !== null) throw new Error(`postgres ended with ${child.exitCode}`);
    await pause(50);
  }
  const stop = async (): Promise<void> => {
    child.kill('SIGINT'); // closes connections
    await once(child, 'exit');
    rmSync(dir, { recursive: true });
  };
  const url = `postgresql://bench@${address.PGHOST}:${address.PGPORT}`;
  return { url, env, pid: child.pid as number, stop };

  function isReady(): boolean {
    try {
      execFileSync(join(programs, 'pg_isready'), { env, stdio: 'ignore' });
      return true;
    } catch {
      return false;
    }
  }
}

/** Of the user that Debian's package creates. */
const idOf = (option: '-u' | '-g'): number =>
  Number(execFileSync('id', [option, 'postgres'], { encoding: 'utf8' }));
