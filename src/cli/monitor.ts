import { existsSync } from 'node:fs';
import { replaceFile } from '../disk/replaceFile.ts';
import { Alarm, checkLog } from '../monitor/checkLog.ts';
import { LogClient, LogUnavailable } from '../monitor/logClient.ts';
import { sleep } from '../time/sleep.ts';
import { openCheckpoint, type SignedCheckpoint } from '../transparency/checkpoint.ts';
import { NotVerified } from '../transparency/notVerified.ts';
import { parseVerifierKey, type VerifierKey } from '../transparency/signedNote.ts';
import { readCheckpointFile } from './checkpointFile.ts';
import { type Context, ExitError, write } from './context.ts';
import { printable } from './printable.ts';
import { commandProgress } from './progress.ts';

type Options = { url: string; key: string; state: string; once?: true; interval: string };

/** The exit code with --once, if the log could not be checked, or has events with problems: no alarm. */
const NO_ALARM = 2;
/** With --once, how often an unavailable log is tried. */
const ATTEMPTS = 3;
const RETRY_INTERVAL_MS = 1_000;
const MAX_LISTED = 20;

/**
 * Checks a log over HTTP, once or again and again, and remembers its last checkpoint in a file.
 * @throws Error if the log contradicts itself; both checkpoints are then in files
 */
export async function monitorCommand(options: Options, context: Context): Promise<void> {
  const { state: file, once } = options;
  const { env, print, signal } = context;
  const key = parseVerifierKey(options.key);
  const url = parseUrl(options.url);
  const intervalMs = parseInterval(options.interval);
  const token = env.TOKEN;
  if (!token) throw new Error('TOKEN, an environment variable, must be a token with the scope audit.');
  const client = new LogClient({ url, token, signal });
  if (existsSync(contradictionOf(file)))
    throw new Error(
      `there was an alarm before: ${contradictionOf(file)} contradicts ${file}; keep both, and move them to check this log again`,
    );
  for (let failures = 0; ; ) {
    try {
      const problems = await checkOnce(client, key, file, context);
      if (once && problems > 0) throw new ExitError(`events with problems: ${problems}`, NO_ALARM);
      if (once) return;
      failures = 0;
    } catch (error) {
      if (!(error instanceof LogUnavailable)) throw error;
      failures++;
      if (once && failures === ATTEMPTS) throw new ExitError(`not checked: ${error.message}`, NO_ALARM);
      print(printable(`not checked: ${error.message}`));
    }
    await sleep(once ? RETRY_INTERVAL_MS : intervalMs, signal);
    signal.throwIfAborted();
  }
}

/** Checks the log once, and returns how many of its new events have problems. @throws LogUnavailable, Error */
async function checkOnce(
  client: LogClient,
  key: VerifierKey,
  file: string,
  context: Context,
): Promise<number> {
  const { output, print, onTerminal, signal } = context;
  using progress = commandProgress(onTerminal ? print : () => {}, onTerminal);
  let problems = 0;
  try {
    const { bytes, checkpoint, added } = await checkLog({
      client,
      key,
      earlier: await readState(file, key),
      now: () => new Date(),
      sleep: (ms) => sleep(ms, signal),
      onProblem: (problem) => {
        if (++problems <= MAX_LISTED) print(printable(problem));
      },
      onProgress: ({ events, end }) =>
        progress.show({ step: 'checking', events, position: BigInt(events), end: BigInt(end) }),
    });
    progress[Symbol.dispose]();
    replaceFile(file, bytes);
    const { origin, size, root } = checkpoint;
    const line = `${origin}  ${size}:${root}  new events: ${added}, with problems: ${problems}`;
    await write(output, `${new Date().toISOString()}  ${line}\n`);
    return problems;
  } catch (error) {
    if (!(error instanceof Alarm)) throw error;
    throw new Error(printable(`ALARM: ${error.message}; ${keepEvidence(file, error)}`), { cause: error });
  }
}

/** Writes the contradicting checkpoint beside the last one, and says where they are. */
function keepEvidence(file: string, { checkpoint }: Alarm): string {
  const contradiction = contradictionOf(file);
  try {
    replaceFile(contradiction, checkpoint);
  } catch (error) {
    return `the evidence could not be written: ${(error as Error).message}\n${checkpoint}`;
  }
  return `the evidence is in ${existsSync(file) ? `${file} and ${contradiction}` : contradiction}`;
}

const contradictionOf = (file: string): string => `${file}.contradiction`;

/** The last checkpoint; undefined before the first. @throws Error if the file has something else */
async function readState(file: string, key: VerifierKey): Promise<SignedCheckpoint | undefined> {
  if (!existsSync(file)) return undefined;
  try {
    return await openCheckpoint(readCheckpointFile(file, '--state'), key);
  } catch (error) {
    if (!(error instanceof NotVerified)) throw error;
    throw new Error(`the file of --state is not a checkpoint of this log: ${error.message}`, {
      cause: error,
    });
  }
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
