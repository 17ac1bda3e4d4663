import { existsSync } from 'node:fs';
import { TreeComparison } from '../../projections/merkleTree/treeComparison.ts';
import { type Problem, ViewComparison } from '../../projections/viewComparison.ts';
import { merkleTreeFile, VIEWS } from '../../projections/views.ts';
import { verifyLog } from '../audit/verify.ts';
import { verifyTree } from '../audit/verifyTree.ts';
import { logFile } from '../disk/dataDir.ts';
import type { EventLog } from '../eventStore/eventStore.ts';
import { logFileProblems } from '../eventStore/sqlite/integrity.ts';
import { formatTreeHead, type TreeHead } from '../merkle/treeHead.ts';
import { printable } from '../transparency/printable.ts';
import { parseExpectedRoot } from './checkpointFile.ts';
import { type Context, useLog, write } from './context.ts';
import { commandProgress } from './progress.ts';

type Options = { expect?: string; quick?: true; json?: true };

/** Prints the Merkle root of the log, and its problems. @throws Error if there are any */
export async function verifyCommand(options: Options, context: Context): Promise<void> {
  const { config, output, print, signal } = context;
  const expect =
    options.expect === undefined ? undefined : await parseExpectedRoot(options.expect, config, print);
  await using resources = new AsyncDisposableStack();
  const log = await useLog(resources, context, { raw: true });
  const quick = options.quick === true;
  const isFile = config.eventStoreDb === undefined;
  const [[result, lines], fileProblems] = await Promise.all([
    quick ? verifyQuickly(log, expect, context) : verifyFully(log, expect, context),
    isFile ? logFileProblems(logFile(config.dataDir), { quick, signal, resources }) : [],
  ]);
  result.problems.unshift(...fileProblems.map((problem) => ({ problem })));
  result.problemCount += fileProblems.length;
  await write(output, options.json ? `${toJson(result)}\n` : toText([...lines, ...problemLines(result)]));
  if (result.problemCount > 0)
    throw new Error(`verification failed: ${count(result.problemCount, 'problem')}`);
}

/** What is printed as JSON, and what is printed as text except for the problems. */
type Result = TreeHead & { position: bigint; problems: Problem[]; problemCount: number };
type Line = [name: string, value: string];

/** Reads the whole log. */
async function verifyFully(
  log: EventLog,
  expect: TreeHead | undefined,
  { config, print, onTerminal, signal }: Context,
): Promise<[Result, Line[]]> {
  const { dataDir, eventStoreDb, skipEvents: skip, merkleTree } = config;
  await using resources = new AsyncDisposableStack();
  const [viewFile, treeFile] = [VIEWS.plantsByUser.file(dataDir), merkleTreeFile(dataDir)];
  const view = open(`the view ${viewFile}`, () => ViewComparison.open(log, viewFile, skip), resources);
  // Without MERKLE_TREE=on its file may be of an earlier time.
  const openTree = () => (merkleTree ? TreeComparison.open(treeFile) : undefined);
  const tree = open(`the Merkle tree ${treeFile}`, openTree, resources);
  const progress = resources.use(commandProgress(onTerminal ? print : () => {}, onTerminal));
  const verification = await verifyLog({
    log,
    gapless: eventStoreDb === undefined,
    view: view.opened,
    tree: tree.opened,
    skip,
    expect,
    signal,
    onProgress: (done) => progress.show({ step: 'verifying', ...done }),
  });
  const unreadable = [view.problem, tree.problem].filter((problem) => problem !== undefined);
  verification.problems.unshift(...unreadable.map((problem) => ({ problem })));
  verification.problemCount += unreadable.length;
  const { unknown, skipped } = verification;
  const compared = (position: bigint | undefined, { opened, problem }: Opened<object>): string => {
    if (position !== undefined) return `compared up to position ${position}`;
    return opened || problem ? 'not compared' : 'none';
  };
  const lines: Line[] = [
    ...rootLines(verification),
    ['view', compared(verification.view, view)],
    ['tree', compared(verification.tree, tree)],
  ];
  if (unknown > 0) lines.push(['unknown', `${count(unknown, 'event')} of unknown types`]);
  if (skipped > 0) lines.push(['skipped', `${count(skipped, 'event')} in SKIP_EVENTS`]);
  return [verification, lines];
}

/** Reads the file of the Merkle tree, and of the log only its last events. */
async function verifyQuickly(
  log: EventLog,
  expect: TreeHead | undefined,
  { config }: Context,
): Promise<[Result, Line[]]> {
  const file = merkleTreeFile(config.dataDir);
  if (!config.merkleTree) throw new Error('--quick requires MERKLE_TREE=on; verify without it');
  if (!existsSync(file)) throw new Error(`there is no ${file}, which --quick reads; verify without it`);
  const verification = await verifyTree({ log, file, expect }).catch((error) => {
    throw new Error(`cannot verify the Merkle tree ${file}: ${error.message}`, { cause: error });
  });
  const { lastEvents } = verification;
  const problems = verification.problems.map((problem) => ({ problem }));
  const read =
    lastEvents === 0 ? 'not read' : `not read, except for the last ${count(lastEvents, 'event')} of the tree`;
  return [
    { ...verification, problems, problemCount: problems.length },
    [...rootLines(verification), ['log', read]],
  ];
}

type Opened<T> = { opened?: T | undefined; problem?: string };

/** Opens what is compared, until `resources` are disposed of; or says why it cannot be. */
function open<T extends { close(): void }>(
  name: string,
  opening: () => T | undefined,
  resources: AsyncDisposableStack,
): Opened<T> {
  try {
    const opened = opening();
    if (opened) resources.defer(() => opened.close());
    return { opened };
  } catch (error) {
    return { problem: `cannot read ${name}: ${(error as Error).message}` };
  }
}

function rootLines({ size, position, root }: TreeHead & { position: bigint }): Line[] {
  return [
    ['size', String(size)],
    ['position', String(position)],
    ['root', root],
    ['expect', formatTreeHead({ size, root })],
  ];
}

function problemLines({ problems, problemCount }: Result): Line[] {
  const lines: Line[] = [['problems', problemCount === 0 ? 'none' : String(problemCount)]];
  for (const { position: at, problem } of problems)
    lines.push(['', printable(at === undefined ? problem : `position ${at}: ${problem}`)]);
  if (problemCount > problems.length) lines.push(['', `and ${problemCount - problems.length} more`]);
  return lines;
}

const toText = (lines: readonly Line[]): string =>
  lines.map(([name, value]) => `${name.padEnd(8)}  ${value}\n`).join('');

/** Positions are strings, since few JSON parsers keep 64-bit integers; null stands for none. */
function toJson({ problems, ...rest }: Result): string {
  const listed = problems.map(({ position, problem }) => ({ position, problem }));
  return JSON.stringify({ ...rest, problems: listed }, (_, value) =>
    typeof value === 'bigint' ? String(value) : (value ?? null),
  );
}

function count(number: number, thing: string): string {
  return `${number} ${thing}${number === 1 ? '' : 's'}`;
}
