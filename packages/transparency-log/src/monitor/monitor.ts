import { hash } from 'node:crypto';
import { useProxyFromEnv } from '@event-sourced/event-log/process';
import { sleep } from '@event-sourced/event-log/time';
import { formatTreeHead } from '../merkle/treeHead.ts';
import { keyOrigin } from '../notes/checkpoint.ts';
import { printable } from '../notes/printable.ts';
import { Alarm } from './alarm.ts';
import { AlarmDirectory } from './alarmDirectory.ts';
import { type Checked, checkLog } from './checkLog.ts';
import { formatDuration } from './durations.ts';
import { readKnown } from './fromOthers.ts';
import { LogClient } from './logClient.ts';
import { type MonitorOptions, parseMonitorOptions } from './monitorOptions.ts';
import { NotChecked } from './notChecked.ts';
import type { Received } from './received.ts';
import { type State, StateFiles } from './state.ts';

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
    alarms: AlarmDirectory;
    /** Checkpoints that are not in the state yet: from others, or because writing the state failed. */
    known: readonly Received[];
  };

const ATTEMPTS_ONCE = 3;
/** The maximum duration of a timer. */
const MAX_TIMER_MS = 2 ** 31 - 1;
const TOO_SLOW =
  'the check took longer than --timeout allows: the log is slow, or has many events; set a longer one';
const RETRY_INTERVAL_MS = 1_000;

/**
 * Checks a log over HTTP, once or repeatedly, and records in files what the log has signed. @throws NotChecked; Error
 * if the log contradicts itself, after writing the evidence to files
 */
export async function monitorLog(options: MonitorOptions, context: Context): Promise<void> {
  const { env, print } = context;
  const settings = parseMonitorOptions(options, print);
  // An error of `fetch` would quote a token with invalid characters.
  if (!/^[!-~]*$/.test(env.TOKEN ?? ''))
    throw new Error('the environment variable TOKEN is not a valid token.');
  const witnesses = (settings.policy?.witnesses ?? []).flatMap(({ url }) => url ?? []);
  useProxyFromEnv(env, [settings.url, ...witnesses]);
  const files = new StateFiles(options.state);
  const alarms = new AlarmDirectory({ path: `${options.state}.alarm`, program: settings.program, print });
  const known = await readKnown(options.known ?? [], settings.key, new Date().toISOString());
  const run = { ...context, ...settings, files, alarms, known };
  await (settings.once ? checkOnce(run) : follow(run));
}

/** Makes a few attempts within --timeout. @throws NotChecked, Error */
async function checkOnce(run: Run): Promise<void> {
  const deadline = performance.now() + run.timeoutMs;
  for (let attempt = 1; ; attempt++) {
    const failure = await tryToCheck(run, deadline - performance.now());
    if (!failure) return;
    if (attempt === ATTEMPTS_ONCE) throw failure;
    await sleep(RETRY_INTERVAL_MS, run.signal);
  }
}

/** Checks until the signal aborts. @throws its reason, Error */
async function follow(run: Run): Promise<never> {
  for (;;) {
    const failure = await tryToCheck(run, run.timeoutMs);
    if (failure) run.print(failure.message);
    await sleep(run.intervalMs, run.signal);
  }
}

/** Checks the log; returns the reason if that is not possible now. @throws Error, for example after an alarm */
async function tryToCheck(run: Run, timeoutMs: number): Promise<NotChecked | undefined> {
  run.signal.throwIfAborted();
  const deadline = new AbortController();
  const ms = Math.max(1, Math.min(timeoutMs, MAX_TIMER_MS));
  const timer = setTimeout(() => deadline.abort(new NotChecked(TOO_SLOW)), ms);
  try {
    await check(run, AbortSignal.any([run.signal, deadline.signal]));
    return undefined;
  } catch (error) {
    if (!(error instanceof NotChecked)) throw error;
    return new NotChecked(printable(`not checked: ${error.message}`));
  } finally {
    clearTimeout(timer);
  }
}

/** Locks the state, and checks the log unless there was an alarm. @throws NotChecked, Error */
async function check(run: Run, signal: AbortSignal): Promise<void> {
  const { files, alarms, key } = run;
  if (!alarms.exists) await files.read(key); // before any file is created
  using _lock = await files.lock();
  if (alarms.exists) {
    await alarms.notifyAgain();
    throw new Error(
      `there was an alarm before: its evidence is in ${alarms.path}; keep it, ${files.path} and ${files.path}.checkpoint; move all three to check this log again`,
    );
  }
  try {
    const checked = await checkRemote(run, signal);
    await files.writeChecked(checked.state);
    run.known = []; // the state is consistent with them
    await printResult(checked, run);
  } catch (error) {
    if (error instanceof Alarm) throw new Error(await alarms.raise(error), { cause: error });
    if (error instanceof NotChecked) throw new NotChecked(withPending(error, await files.read(key)));
    throw error;
  }
}

/** @throws Alarm, NotChecked */
async function checkRemote(run: Run, signal: AbortSignal): Promise<Checked> {
  const { url, key, files, env } = run;
  const onNotice = (line: string): void => run.print(printable(line));
  return checkLog({
    ...run,
    client: new LogClient({ url, token: env.TOKEN, signal }),
    witnessCheckpoint: (witness) =>
      new LogClient({
        url: `${witness}/${hash('sha256', keyOrigin(key))}`,
        signal,
        maxWaits: 0,
      }).checkpoint(),
    state: await files.read(key),
    now: () => new Date(),
    sleep: (ms) => sleep(ms, signal),
    // A checkpoint that cannot be written is still compared; the error is thrown in the end.
    onReceived: (state) =>
      files.write(state).catch(({ message }) => {
        run.known = state.pending;
        onNotice(message);
      }),
    onNotice,
  });
}

async function printResult(checked: Checked, { write }: Run): Promise<void> {
  await write(formatResult(checked)).catch((error) => {
    if (error.code === 'EPIPE') throw error; // no one reads the output
    throw new NotChecked(`cannot write to standard output: ${error.message}`); // for example, to a full disk
  });
}

function formatResult({ state: { checkpoint }, added, again, cosignedAt }: Checked): string {
  const now = new Date();
  const log = printable(`${checkpoint.origin}  ${formatTreeHead(checkpoint)}`);
  const older = again > 0 ? `, compared again: ${again}` : '';
  const age = cosignedAt && formatDuration(now.getTime() - cosignedAt * 1_000);
  const cosigned = age ? `, cosigned: ${age} ago` : '';
  return `${now.toISOString()}  ${log}  new events: ${added}${older}${cosigned}\n`;
}

function withPending({ message }: NotChecked, { pending }: State): string {
  const [first] = pending;
  if (!first) return message;
  const count = `${pending.length} checkpoint${pending.length === 1 ? '' : 's'}`;
  return `${message}; it has yet to show what it signed in ${count}, the first received at ${first.receivedAt}`;
}
