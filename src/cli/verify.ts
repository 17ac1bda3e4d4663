import { ViewComparison } from '../../projections/viewComparison.ts';
import { VIEWS } from '../../projections/views.ts';
import { type Verification, verifyLog } from '../audit/verify.ts';
import { logFile } from '../disk/dataDir.ts';
import type { EventLog } from '../eventStore/eventStore.ts';
import { logFileProblems } from '../eventStore/sqlite/integrity.ts';
import { parseExpectedRoot } from './checkpointFile.ts';
import { type Context, useLog, write } from './context.ts';
import { printable } from './printable.ts';
import { commandProgress } from './progress.ts';

type Options = { expect?: string; quick?: true; json?: true };

/** Prints the Merkle root of the log, and its problems. @throws Error if there are any */
export async function verifyCommand(options: Options, context: Context): Promise<void> {
  const { config, output, print, onTerminal, signal } = context;
  const expect = options.expect === undefined ? undefined : parseExpectedRoot(options.expect, config, print);
  await using resources = new AsyncDisposableStack();
  const log = await useLog(resources, context, { exact: true });
  const { view, viewProblem } = openView(log, context);
  if (view) resources.defer(() => view.close());
  const progress = resources.use(commandProgress(onTerminal ? print : () => {}, onTerminal));
  const isFile = config.eventStoreDb === undefined;
  const [verification, fileProblems] = await Promise.all([
    verifyLog({
      log,
      gapless: isFile,
      view,
      skip: config.skipEvents,
      expect,
      signal,
      onProgress: (done) => progress.show({ step: 'verifying', ...done }),
    }),
    isFile ? logFileProblems(logFile(config.dataDir), { quick: options.quick === true, signal }) : [],
  ]);
  progress[Symbol.dispose]();
  const others = viewProblem === undefined ? fileProblems : [viewProblem, ...fileProblems];
  verification.problems.unshift(...others.map((problem) => ({ problem })));
  verification.problemCount += others.length;
  const isViewDamaged = viewProblem !== undefined;
  await write(output, options.json ? `${toJson(verification)}\n` : toText(verification, isViewDamaged));
  if (verification.problemCount > 0)
    throw new Error(`verification failed: ${count(verification.problemCount, 'problem')}`);
}

function openView(log: EventLog, { config }: Context): { view?: ViewComparison; viewProblem?: string } {
  try {
    const view = ViewComparison.open(log, VIEWS.plantsByUser.file(config.dataDir), config.skipEvents);
    return view ? { view } : {};
  } catch (error) {
    return { viewProblem: `cannot read the view: ${(error as Error).message}` };
  }
}

function toText(
  { size, position, root, view, unknown, skipped, problems, problemCount }: Verification,
  isViewDamaged: boolean,
): string {
  const notCompared = isViewDamaged ? 'not compared' : 'none';
  const lines = [
    ['size', String(size)],
    ['position', String(position)],
    ['root', root],
    ['expect', `${size}:${root}`],
    ['view', view === undefined ? notCompared : `compared up to position ${view}`],
  ];
  if (unknown > 0) lines.push(['unknown', `${count(unknown, 'event')} of unknown types`]);
  if (skipped > 0) lines.push(['skipped', `${count(skipped, 'event')} in SKIP_EVENTS`]);
  lines.push(['problems', problemCount === 0 ? 'none' : String(problemCount)]);
  for (const { position: at, problem } of problems)
    lines.push(['', printable(at === undefined ? problem : `position ${at}: ${problem}`)]);
  if (problemCount > problems.length) lines.push(['', `and ${problemCount - problems.length} more`]);
  return lines.map(([name = '', value]) => `${name.padEnd(8)}  ${value}\n`).join('');
}

function toJson({ position, view, problems, ...rest }: Verification): string {
  return JSON.stringify({
    ...rest,
    position: String(position),
    view: view === undefined ? null : String(view),
    problems: problems.map(({ position: at, problem }) => ({
      position: at === undefined ? null : String(at),
      problem,
    })),
  });
}

function count(number: number, thing: string): string {
  return `${number} ${thing}${number === 1 ? '' : 's'}`;
}
