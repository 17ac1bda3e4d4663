import { existsSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { replaceFile } from '@event-sourced/transparency-log/files';

/** The commands that run at times, unseen: the service shows in its metrics when each has succeeded. */
export type Job = 'backup' | 'verify';
/** The time of the last success, in milliseconds since 1970, and whether a later run has failed. */
export type LastResult = { succeededAt: number; hasFailed: boolean };

const jobFile = (dataDir: string, job: Job): string => join(dataDir, `last-${job}`);

/** The result of the last runs; a job that has never succeeded did so in 1970. */
export async function lastResult(dataDir: string, job: Job): Promise<LastResult> {
  const text = await readFile(jobFile(dataDir, job), 'utf8').catch(() => '');
  const [, succeeded = '', failed] = /^succeeded: (\S+)\n(failed: )?/.exec(text) ?? [];
  const time = Date.parse(succeeded);
  return { succeededAt: Number.isNaN(time) ? 0 : time, hasFailed: failed !== undefined };
}

type Context = { config: { dataDir: string }; print: (line: string) => void; signal: AbortSignal };

/** Runs a job and records its result in the data directory of a service, unless it is aborted. @throws the error of `run` */
export async function runJob(
  job: Job,
  { config, print, signal }: Context,
  run: () => Promise<void>,
): Promise<void> {
  const file = jobFile(config.dataDir, job);
  const record = async (text: string): Promise<void> => {
    if (signal.aborted || !existsSync(join(config.dataDir, 'lock.db'))) return;
    await replaceFile(file, text).catch(({ message }: Error) => print(`cannot write ${file}: ${message}`));
  };
  const now = (): string => new Date().toISOString();
  try {
    await run();
  } catch (error) {
    const { succeededAt } = await lastResult(config.dataDir, job);
    const earlier = new Date(succeededAt).toISOString();
    await record(`succeeded: ${earlier}\nfailed: ${now()}\n`);
    throw error;
  }
  await record(`succeeded: ${now()}\n`);
}
