import { existsSync } from 'node:fs';
import { formatTreeHead } from '../merkle/treeHead.ts';
import { printable } from '../notes/printable.ts';
import { parseVerifierKey, type VerifierKey } from '../notes/signedNote.ts';
import { Alarm } from './alarm.ts';
import { checkLog } from './checkLog.ts';
import type { CheckEvent } from './eventCheck.ts';
import { LogClient, LogUnavailable } from './logClient.ts';
import { sleep } from './sleep.ts';
import { type State, StateFiles } from './state.ts';

/** The options of the command, as text. */
export type MonitorOptions = {
  url: string;
  key: string;
  state: string;
  once?: true;
  all?: true;
  interval: string;
};

type MonitorContext = {
  token: string | undefined;
  /** Writes a line for each check. */
  write: (line: string) => Promise<void>;
  print: (line: string) => void;
  signal: AbortSignal;
  stateFormat?: string;
  /** Checks the content of an event; by default nothing is known of it. */
  check?: CheckEvent;
  openProgress?: () => { show(events: number, end: number): void; close(): void };
};

/** With `once`: the log could not be checked, or has events with problems. It is no alarm. */
class NotChecked extends Error {
  override readonly name = 'NotChecked';
  readonly exitCode = 2;
}

const STATE_FORMAT = 'transparency-log monitor 1';
const ATTEMPTS_ONCE = 3;
const RETRY_INTERVAL_MS = 1_000;
const MAX_LISTED_PROBLEMS = 20;
/** Larger evidence is not printed if it cannot be written: checkpoints and proofs are smaller. */
const MAX_PRINTED_BYTES = 32 * 1024;

/**
 * Checks a log over HTTP, once or again and again, and remembers in a file what it has signed. @throws
 * NotChecked; Error if the log contradicts itself, whose evidence is then in files
 */
export async function monitorLog(options: MonitorOptions, context: MonitorContext): Promise<void> {
  const { once } = options;
  const { token, print, signal } = context;
  const key = parseVerifierKey(options.key);
  const url = parseUrl(options.url);
  const intervalMs = parseInterval(options.interval);
  if (!token) throw new Error('TOKEN, an environment variable, must be a token with the scope audit.');
  const client = new LogClient({ url, token, signal });
  const files = new StateFiles(options.state, context.stateFormat ?? STATE_FORMAT);
  if (existsSync(files.alarm))
    throw new Error(
      `there was an alarm before: its evidence is in ${files.alarm}; keep it and ${options.state}, and move both to check this log again`,
    );
  for (let failures = 0; ; ) {
    try {
      const problems = await checkOnce(client, key, files, options, context);
      if (once && problems > 0) throw new NotChecked(`events with problems: ${problems}`);
      if (once) return;
      failures = 0;
    } catch (error) {
      if (!(error instanceof LogUnavailable)) throw error;
      failures++;
      const line = printable(`not checked: ${error.message}`);
      if (once && failures === ATTEMPTS_ONCE) throw new NotChecked(line);
      if (!once) print(line);
    }
    await sleep(once ? RETRY_INTERVAL_MS : intervalMs, signal);
    signal.throwIfAborted();
  }
}

/** Checks the log once, and returns how many of the checked events have problems. @throws LogUnavailable, Error */
async function checkOnce(
  client: LogClient,
  key: VerifierKey,
  files: StateFiles,
  { all }: MonitorOptions,
  { write, print, signal, check, openProgress }: MonitorContext,
): Promise<number> {
  const progress = openProgress?.();
  let problems = 0;
  try {
    const { state, checkpoint, added, unknown } = await checkLog({
      client,
      key,
      state: await files.readState(key),
      all,
      check,
      now: () => new Date(),
      sleep: (ms) => sleep(ms, signal),
      onReceived: (received) => files.writeState(received),
      onProblem: (problem) => {
        if (++problems <= MAX_LISTED_PROBLEMS) print(printable(problem));
      },
      onProgress: (events, end) => progress?.show(events, end),
    });
    progress?.close();
    await files.writeState(state);
    await files.writeCheckpoint(checkpoint.note);
    const found = `new events: ${added}, with problems: ${problems}, of unknown types: ${unknown}`;
    const log = `${checkpoint.origin}  ${formatTreeHead(checkpoint)}`;
    await write(`${new Date().toISOString()}  ${printable(log)}  ${found}\n`);
    return problems;
  } catch (error) {
    if (error instanceof Alarm) throw new Error(await alarmLine(error, files), { cause: error });
    if (error instanceof LogUnavailable)
      throw new LogUnavailable(notChecked(error, await files.readState(key)));
    throw error;
  } finally {
    progress?.close();
  }
}

async function alarmLine({ message, evidence, commands }: Alarm, files: StateFiles): Promise<string> {
  const line = `ALARM: ${message}`;
  const verify = commands.length > 0 ? ['', 'Verify with the scripts of docs/tools:', ...commands] : [];
  const text = [`${new Date().toISOString()}  ${printable(line)}`, ...verify, ''].join('\n');
  try {
    await files.writeAlarm(text, evidence);
    return printable(`${line}; the evidence is in ${files.alarm}; see docs/alarms.md`);
  } catch (error) {
    const short = evidence.filter(({ content }) => content.length <= MAX_PRINTED_BYTES);
    const contents = short.map(({ name, content }) => `${name}, in Base64: ${content.toString('base64')}`);
    const reason = (error as Error).message;
    return [printable(`${line}; the evidence could not be written: ${reason}`), ...contents].join('\n');
  }
}

function notChecked({ message }: LogUnavailable, { pending }: State): string {
  const [first] = pending;
  if (!first) return message;
  const count = `${pending.length} checkpoint${pending.length === 1 ? '' : 's'}`;
  return `${message}; it has yet to show what it signed in ${count}, the first received at ${first.receivedAt}`;
}

function parseUrl(text: string): string {
  const url = URL.parse(text);
  const more = url && url.username + url.password + url.search + url.hash;
  if (!url || !/^https?:$/.test(url.protocol) || more !== '')
    throw new Error('--url must be an http or https URL without user, query and fragment.');
  return url.href;
}

function parseInterval(text: string): number {
  if (!/^[1-9]\d{0,5}$/.test(text)) throw new Error('--interval must be a number of seconds.');
  return Number(text) * 1_000;
}
