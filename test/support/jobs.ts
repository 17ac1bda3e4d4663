import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseEnv } from 'node:util';
import { canRun, type Ended, NODE, type Process, ROOT, run, start } from './process.ts';

/** The user as whom a test that runs as root starts jobs: another one, who can read this checkout. */
export const JOB_USER: { name: string; uid: number; gid: number } | undefined =
  process.getuid?.() === 0 &&
  canRun('jobs as another user', [
    ...['runuser', '-u', 'nobody', '--', 'test', '-r', join(ROOT, 'package.json'), '-a', '-x', NODE],
  ])
    ? { name: 'nobody', uid: 65_534, gid: 65_534 }
    : undefined;

/** The environments of a job on Debian 12: they have nothing of the installer's shell. */
const CRON = { PATH: '/usr/bin:/bin', HOME: '/root', LOGNAME: 'root', SHELL: '/bin/sh' };
const SYSTEMD = { PATH: '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin', LANG: 'C.UTF-8' };

type Result = Ended & { stdout: string; stderr: string };

const shell = (env: Record<string, string>, script: string) => [
  ...['env', '-i', ...Object.entries(env).map(([name, value]) => `${name}=${value}`)],
  ...['/bin/sh', '-c', script],
];

/** Runs a line of a crontab as cron does. */
export const runAsCron = (line: string): Promise<Result> =>
  run({ command: shell(CRON, `umask 077 && cd / && ${line}`) });

/** Runs the commands of a unit as systemd does, `moved` in place of its absolute paths; ends at the first that fails. */
export async function runAsSystemd(unit: string, moved: (text: string) => string): Promise<Result> {
  const job = startAsSystemd(unit, moved);
  const ended = await job.ended;
  return { ...ended, stdout: job.stdout(), stderr: job.stderr() };
}

/** Starts the command of a unit as systemd does. */
export function startAsSystemd(unit: string, moved: (text: string) => string): Process {
  const all = (name: string): string[] =>
    [...unit.matchAll(RegExp(`^${name}=-?(.*)$`, 'gm'))].map(([, value = '']) => moved(value));
  const [workingDirectory = '/'] = all('WorkingDirectory');
  const env = {
    ...parseEnv(moved(`PATH=${SYSTEMD.PATH}\nLANG=${SYSTEMD.LANG}`)),
    ...parseEnv(all('Environment').join('\n')),
    ...parseEnv(
      all('EnvironmentFile')
        .map((file) => readFileSync(file, 'utf8'))
        .join('\n'),
    ), // root reads it
  } as Record<string, string>;
  const script = ['set -e', 'umask 077', `cd '${workingDirectory}'`, ...all('ExecStart')].join('\n');
  return start({ command: shell(env, script), ...JOB_USER });
}
