import { hash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { printable } from '@event-sourced/node/cli';
import { useProxyFromEnv } from '@event-sourced/node/process';
import { sleep } from '@event-sourced/node/time';
import { keyOrigin } from '@event-sourced/tlog';
import { Alarm } from './alarm.ts';
import { type Checked, checkLog } from './checkLog.ts';
import { formatResult } from './formatResult.ts';
import { readKnown } from './fromOthers.ts';
import { LogClient } from './logClient.ts';
import { type MonitorOptions, parseMonitorOptions } from './monitorOptions.ts';
import { NotChecked } from './notChecked.ts';
import { raise } from './raise.ts';
import type { Received } from './received.ts';
import type { State } from './state.ts';
import { StateFiles } from './stateFiles.ts';

type Context = {
  /** TOKEN is the token for the log. */
  env: NodeJS.ProcessEnv;
  /** Writes a line for each check. */
  write: (line: string) => Promise<void>;
  print: (line: string) => void;
  signal: AbortSignal;
};

/** The context of all checks of a run. */
type Run = ReturnType<typeof parseMonitorOptions> &
  Context & {
    files: StateFiles;
    /** The directory with the evidence of an alarm. While it exists, the log is not checked. */
    alarms: string;
    known: readonly Received[];
    /** The state whose file could not be written. */
    unsaved?: State | undefined;
    /** When the log was last checked, in RFC 3339. */
    checkedAt?: string | undefined;
  };

/** The maximum duration of a timer. */
const MAX_TIMER_MS = 2 ** 31 - 1;
const TOO_SLOW =
  'the check took longer than --timeout allows: the log is slow, or has many events; set a longer one';

/**
 * Checks a log over HTTP, once or repeatedly, and records in files what the log has signed. @throws NotChecked; Error
 * for an alarm, after writing the evidence to files
 */
export async function monitorLog(options: MonitorOptions, context: Context): Promise<void> {
  const { env, print, signal } = context;
  const settings = parseMonitorOptions(options, print);
  // An error of `fetch` would quote a token with invalid characters.
  if (!/^[!-~]*$/.test(env.TOKEN ?? ''))
    throw new Error('the environment variable TOKEN is not a valid token.');
  useProxyFromEnv(env);
  const files = new StateFiles(options.state);
  const alarms = `${options.state}.alarm`;
  const known = await readKnown(options.known ?? [], settings.key, new Date().toISOString());
  const run: Run = { ...context, ...settings, files, alarms, known };
  for (;;) {
    const failure = await tryToCheck(run);
    if (failure && settings.once) throw failure;
    if (settings.once) return;
    if (failure) print(failure.message);
    await sleep(settings.intervalMs, signal);
  }
}

/** Checks the log within --timeout; returns the reason if that is not possible now. @throws Error for an alarm */
async function tryToCheck(run: Run): Promise<NotChecked | undefined> {
  const deadline = new AbortController();
  const ms = Math.min(run.timeoutMs, MAX_TIMER_MS);
  const timer = setTimeout(() => deadline.abort(new NotChecked(TOO_SLOW)), ms);
  try {
    return await check(run, AbortSignal.any([run.signal, deadline.signal]));
  } catch (error) {
    run.signal.throwIfAborted();
    if (error instanceof NotChecked) return toFailure(error, run);
    throw error;
  } finally {
    clearTimeout(timer);
  }
}

/** @throws Error with an alarm, which is not recorded, if the log was not checked for longer than --stale-after */
function toFailure({ message }: NotChecked, { checkedAt, staleAfterMs }: Run): NotChecked {
  const age = checkedAt === undefined ? 0 : Date.now() - Date.parse(checkedAt);
  if (age <= (staleAfterMs ?? Number.POSITIVE_INFINITY))
    return new NotChecked(printable(`not checked: ${message}`));
  const { message: alarm } = new Alarm(
    'unavailable',
    `the log was not checked since ${checkedAt}, longer ago than --stale-after allows: ${message}`,
  );
  throw new Error(printable(`ALARM: ${alarm}; see docs/alarms.md`));
}

/** Locks the state, and checks the log unless there was an alarm. @throws NotChecked, Error */
async function check(run: Run, signal: AbortSignal): Promise<undefined> {
  const { files, alarms, key } = run;
  if (!existsSync(alarms)) await files.read(key); // before any file is created
  using _lock = await files.lock();
  if (existsSync(alarms))
    throw new Error(
      `there was an alarm before: its evidence is in ${alarms}; keep it, ${files.path} and ${files.path}.checkpoint; move all three to check this log again`,
    );
  const now = new Date().toISOString();
  const state = run.unsaved ?? (await files.read(key));
  run.checkedAt = state.checkedAt ?? now;
  if (!state.checkedAt) await save({ ...state, checkedAt: now }, run);
  try {
    const checked = await checkRemote({ ...state, checkedAt: run.checkedAt }, run, signal);
    await files.writeChecked({ ...checked.state, checkedAt: now }, checked.checkpoint);
    run.unsaved = undefined;
    run.known = []; // the state is consistent with them
    await printResult(checked, run);
  } catch (error) {
    throw error instanceof Alarm ? new Error(await raise(error, alarms), { cause: error }) : error;
  }
}

/** A state that cannot be written is still used, and written after the next check. */
async function save(state: State, run: Run): Promise<void> {
  run.unsaved = undefined;
  await run.files.write(state).catch(({ message }) => {
    run.unsaved = state;
    run.print(printable(message));
  });
}

/** @throws Alarm, NotChecked */
async function checkRemote(state: State, run: Run, signal: AbortSignal): Promise<Checked> {
  const { url, key, env } = run;
  const path = hash('sha256', keyOrigin(key));
  return checkLog({
    ...run,
    client: new LogClient({ url, token: env.TOKEN, signal }),
    witnessCheckpoint: (witness) =>
      new LogClient({ url: `${witness}/${path}`, signal, maxWaits: 0 }).checkpoint(),
    state,
    now: () => new Date(),
    sleep: (ms) => sleep(ms, signal),
    save: (newer) => save(newer, run),
    onNotice: (line) => run.print(printable(line)),
  });
}

async function printResult(checked: Checked, { write }: Run): Promise<void> {
  await write(formatResult(checked, new Date())).catch((error) => {
    if (error.code === 'EPIPE') throw error; // no one reads the output
    throw new NotChecked(`cannot write to standard output: ${error.message}`); // for example, to a full disk
  });
}
