import { hash } from 'node:crypto';
import { once } from 'node:events';
import { acquireFileLock, FileLocked } from '../files/fileLock.ts';
import { formatTreeHead } from '../merkle/treeHead.ts';
import { printable } from '../notes/printable.ts';
import { Alarm } from './alarm.ts';
import { checkLog } from './checkLog.ts';
import { readDuplicates, writeDuplicates } from './duplicatesFile.ts';
import { formatDuration } from './durations.ts';
import type { CheckEvent } from './eventCheck.ts';
import { readKnown } from './known.ts';
import { LogClient, LogUnavailable } from './logClient.ts';
import { Metrics, serveMetrics } from './metrics.ts';
import { type MonitorOptions, type MonitorSettings, parseMonitorOptions } from './monitorOptions.ts';
import { runOnAlarm } from './onAlarm.ts';
import type { ReceivedCheckpoint } from './receivedCheckpoint.ts';
import { sleep } from './sleep.ts';
import { type State, StateFiles } from './state.ts';
import { watchedLine } from './watch.ts';

type MonitorContext = {
  token: string | undefined;
  /** Writes a line for each check, or for each watched event. */
  write: (line: string) => Promise<void>;
  print: (line: string) => void;
  signal: AbortSignal;
  stateFormat?: string;
  /** Checks the content of an event; by default nothing is known of it. */
  check?: CheckEvent;
  openProgress?: () => { show(events: number, end: number): void; close(): void };
};

/** What all checks of a run have in common. */
type Run = MonitorSettings & {
  token: string;
  files: StateFiles;
  metrics: Metrics;
  /** The checkpoints of others that have not been compared yet. */
  known: readonly ReceivedCheckpoint[];
  /** Checkpoints that could not be written to the state, as on a full disk. */
  unwritten: readonly ReceivedCheckpoint[];
};

/** With `once`: the log could not be checked, or has events with problems. It is no alarm. */
class NotChecked extends Error {
  override readonly name = 'NotChecked';
  readonly exitCode = 2;
}

const STATE_FORMAT = 'transparency-log monitor 1';
const ATTEMPTS_ONCE = 3;
/** Errors of files that may be gone at the next check. */
const TRANSIENT = ['ENOSPC', 'EDQUOT', 'EIO', 'EMFILE', 'ENFILE'];
/** The longest time that a timer can have. */
const MAX_TIMER_MS = 2 ** 31 - 1;
const TOO_SLOW =
  'the check took longer than --timeout allows: the log is slow, or has many events; set a longer one';
const RETRY_INTERVAL_MS = 1_000;
const MAX_LISTED_PROBLEMS = 20;
/** Larger evidence is not printed if it cannot be written: checkpoints and proofs are smaller. */
const MAX_PRINTED_BYTES = 128 * 1024;

/**
 * Checks a log over HTTP, once or again and again, and remembers in files what it has signed. With metrics, it serves
 * them until `signal` aborts, also after an alarm: what has ended cannot be collected. @throws NotChecked; Error if the
 * log contradicts itself, whose evidence is then in files
 */
export async function monitorLog(options: MonitorOptions, context: MonitorContext): Promise<void> {
  const { token = '', print, signal } = context;
  const settings = parseMonitorOptions(options, print);
  // An error of `fetch` would quote a token with other characters.
  if (!/^[!-~]+$/.test(token))
    throw new Error('TOKEN, an environment variable, must be a token with the scope audit.');
  const files = new StateFiles(options.state, context.stateFormat ?? STATE_FORMAT);
  if (!files.hasAlarm) await files.readState(settings.key); // before anything is created
  const known = await readKnown(options.known ?? [], settings.key, new Date().toISOString());
  const metrics = new Metrics();
  const server = settings.metricsAddress && (await serveMetrics(metrics, settings.metricsAddress));
  if (server) print(`metrics: ${server.url}`);
  try {
    const run = { ...settings, token, files, metrics, known, unwritten: [] };
    await checkUntilStopped(run, context);
  } catch (error) {
    if (server && metrics.hasAlarm) {
      print((error as Error).message);
      if (!signal.aborted) await once(signal, 'abort');
    }
    throw error;
  } finally {
    server?.close();
  }
}

async function checkUntilStopped(run: Run, context: MonitorContext): Promise<void> {
  const { once: isOnce, timeoutMs, intervalMs, metrics } = run;
  const { print, signal } = context;
  let startedAt = performance.now();
  for (let failures = 0; ; ) {
    try {
      const leftMs = startedAt + timeoutMs - performance.now();
      const problems = await withDeadline(leftMs, signal, (limited) => checkOnce(run, context, limited));
      if (isOnce && problems > 0) throw new NotChecked(`events with problems: ${problems}`);
      if (isOnce) return;
      run.known = run.unwritten = []; // each is the beginning of what is in the state
      failures = 0;
    } catch (error) {
      if (!(error instanceof LogUnavailable || isTransient(error))) throw error;
      failures++;
      metrics.checksFailed++;
      const line = printable(`not checked: ${error.message}`);
      if (isOnce && failures === ATTEMPTS_ONCE) throw new NotChecked(line);
      if (!isOnce) print(line);
    }
    await sleep(isOnce ? RETRY_INTERVAL_MS : intervalMs, signal);
    signal.throwIfAborted();
    if (!isOnce) startedAt = performance.now();
  }
}

/** Whether an error of the files is one of these. */
const isTransient = (error: unknown): error is Error =>
  [error, (error as Error).cause].some((one) => TRANSIENT.includes(String(Object(one).code)));

/** Does work whose signal aborts with `signal`, or after a time. @throws LogUnavailable then, and what the work throws */
async function withDeadline<T>(
  ms: number,
  signal: AbortSignal,
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const deadline = new AbortController();
  const timer = setTimeout(
    () => deadline.abort(new LogUnavailable(TOO_SLOW)),
    Math.max(1, Math.min(ms, MAX_TIMER_MS)),
  );
  try {
    return await work(AbortSignal.any([signal, deadline.signal]));
  } finally {
    clearTimeout(timer);
  }
}

/** Checks the log once, and returns how many of the checked events have problems. @throws LogUnavailable, Error */
async function checkOnce(run: Run, context: MonitorContext, signal: AbortSignal): Promise<number> {
  const { url, token, key, files, watched, metrics } = run;
  const { write, print, check, openProgress } = context;
  const lock = await acquireFileLock(files.lock).catch((error: Error) => {
    const message = `cannot lock ${files.lock}: ${error.message}`;
    throw error instanceof FileLocked ? new LogUnavailable(message) : new Error(message, { cause: error });
  });
  const progress = openProgress?.();
  const onNotice = (line: string): void => print(printable(line));
  let problems = 0;
  try {
    if (files.hasAlarm) await refuse(run, print);
    const checked = await checkLog({
      ...run,
      known: [...run.known, ...run.unwritten],
      client: new LogClient({ url, token, signal }),
      witnessCheckpoint: (witness) =>
        new LogClient({ url: `${witness}/${hash('sha256', key.name)}`, signal }).checkpoint(),
      state: await files.readState(key),
      check,
      now: () => new Date(),
      sleep: (ms) => sleep(ms, signal),
      // What cannot be written is compared all the same; in the end, it is an error.
      onReceived: (received) =>
        files.writeState(received).catch(({ message }) => {
          run.unwritten = received.pending;
          onNotice(message);
        }),
      readDuplicates: (head) => readDuplicates(files.duplicates, head, onNotice),
      onNotice,
      onProblem: (problem) => {
        if (++problems <= MAX_LISTED_PROBLEMS) print(printable(problem));
      },
      onEntry:
        watched &&
        (async (entry) => {
          const line = watchedLine(entry, watched);
          if (line !== undefined) await write(line);
        }),
      onProgress: (events, end) => progress?.show(events, end),
    });
    progress?.close();
    const { state, checkpoint, cosignedAt, duplicates } = checked;
    if (duplicates) await writeDuplicates(files.duplicates, checkpoint, duplicates);
    await files.writeState(state);
    await files.writeCheckpoint(checkpoint.note);
    const now = new Date();
    Object.assign(metrics, { checkedAt: now.getTime() / 1_000, size: checkpoint.size, cosignedAt });
    const log = printable(`${checkpoint.origin}  ${formatTreeHead(checkpoint)}`);
    const found = `new events: ${checked.added}, with problems: ${problems}, of unknown types: ${checked.unknown}`;
    const age =
      cosignedAt && `, newest cosignature: ${formatDuration(now.getTime() - cosignedAt * 1_000)} old`;
    const line = `${now.toISOString()}  ${log}  ${found}${age ?? ''}`;
    if (watched) print(line);
    else await write(`${line}\n`);
    return problems;
  } catch (error) {
    if (error instanceof Alarm) throw new Error(await raise(error, run, print), { cause: error });
    if (error instanceof LogUnavailable)
      throw new LogUnavailable(notChecked(error, await files.readState(key)));
    throw error;
  } finally {
    lock[Symbol.dispose]();
    progress?.close();
  }
}

/** @throws Error, since there was an alarm, whose program may not have run */
async function refuse(run: Run, print: (line: string) => void): Promise<never> {
  const { files, metrics } = run;
  metrics.hasAlarm = true;
  if (!files.isNotified) await notify(run, print);
  throw new Error(
    `there was an alarm before: its evidence is in ${files.alarm}; keep it and ${files.state}, and move both to check this log again`,
  );
}

/** Runs the program of the operator, if there is one, with the text of an alarm, by default that of the file. */
async function notify({ program, files }: Run, print: (line: string) => void, text?: string): Promise<void> {
  if (!program) return;
  try {
    await runOnAlarm(program, text ?? (await files.readAlarm()));
  } catch (error) {
    return print(printable(`the program of --on-alarm failed: ${(error as Error).message}`));
  }
  if (files.hasAlarm) await files.writeNotified().catch(({ message }) => print(printable(message)));
}

/** Writes the evidence, and runs the program of the operator; returns the line of the alarm. */
async function raise(alarm: Alarm, run: Run, print: (line: string) => void): Promise<string> {
  const { message, evidence } = alarm;
  const commands = evidence.flatMap((file) => file.commands ?? []);
  const verify = commands.length > 0 ? ['', 'Verify with the scripts of docs/tools:', ...commands] : [];
  const first = printable(`${new Date().toISOString()}  ALARM: ${message}`);
  const text = [first, ...verify, ''].join('\n');
  const written = await run.files.writeAlarm(text, evidence).catch((error: Error) => error);
  run.metrics.hasAlarm = true;
  await notify(run, print, text);
  if (!(written instanceof Error))
    return printable(`ALARM: ${message}; the evidence is in ${run.files.alarm}; see docs/alarms.md`);
  const short = evidence.filter(({ content }) => content.length <= MAX_PRINTED_BYTES);
  const contents = short.map(({ name, content }) => `${name}, in Base64: ${content.toString('base64')}`);
  const line = printable(`ALARM: ${message}; the evidence could not be written: ${written.message}`);
  return [line, ...contents].join('\n');
}

function notChecked({ message }: LogUnavailable, { pending }: State): string {
  const [first] = pending;
  if (!first) return message;
  const count = `${pending.length} checkpoint${pending.length === 1 ? '' : 's'}`;
  return `${message}; it has yet to show what it signed in ${count}, the first received at ${first.receivedAt}`;
}
