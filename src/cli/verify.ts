import { existsSync } from 'node:fs';
import { logFile } from '@event-sourced/event-log/disk';
import { checkLogFile } from '@event-sourced/event-log/sqlite';
import type { Problem } from '@event-sourced/event-log/views';
import { printable, printableJson } from '@event-sourced/node/cli';
import { formatTreeHead, parseTreeHead, type TreeHead } from '@event-sourced/tlog';
import { type Verification, verifyLog } from '@event-sourced/transparency-log/entries';
import { readCheckpointFile } from '@event-sourced/transparency-log/files';
import { CheckpointFiles, loadExistingLogKey } from '@event-sourced/transparency-log/signer';
import { isKnownType, plantEventProblem } from '../plants/events.ts';
import { VIEWS } from '../views.ts';
import { openOwnCheckpoint } from './checkpointFile.ts';
import { type Context, useLog, write } from './context.ts';
import { commandProgress } from './progress.ts';

type Options = { expect?: string; signed?: true; json?: true };

/** Reads the whole log, and prints its Merkle root and its problems. @throws Error if it has problems */
export async function verifyCommand(options: Options, context: Context): Promise<void> {
  const { config, output, print, onTerminal, signal } = context;
  const { dataDir, eventStoreDb, skipEvents: skip } = config;
  // The file of a view that is off may be outdated.
  const views = Object.entries(VIEWS).flatMap(([name, { file, open, isOn }]) =>
    isOn(config) ? [{ name, file: file(dataDir), open }] : [],
  );
  const expect = await expected(options, context);
  await using resources = new AsyncDisposableStack();
  const log = await useLog(resources, context, { forHashing: true });
  const progress = commandProgress(onTerminal ? print : () => {});
  const [verification, file] = await Promise.all([
    verifyLog({
      log,
      gapless: eventStoreDb === undefined,
      views,
      dataDir, // for drafts: not /tmp, which may be in memory
      isKnown: isKnownType,
      findProblem: plantEventProblem,
      skip,
      expect,
      signal,
      onProgress: (done) => progress.show({ step: 'verifying', ...done }),
    }),
    eventStoreDb ? { problems: [], notices: [] } : checkLogFile(logFile(dataDir), { signal, resources }),
  ]);
  const { views: compared, problems, problemCount, ...rest } = verification;
  const result = {
    ...rest,
    views: Object.fromEntries(views.map(({ name }) => [name, compared[name]?.upTo])),
    notices: file.notices,
    problems: [...file.problems, ...problems],
    problemCount: problemCount + file.problems.length,
  };
  const { size, root, position, unknown, skipped, erased, records } = result;
  const lines: Line[] = [
    ['size', String(size)],
    ['position', String(position)],
    ['root', root],
    ['expect', formatTreeHead({ size, root })],
    ...(expect && verification.hasExpected
      ? [['expected', `the log begins with ${formatTreeHead(expect)}`] as const]
      : []),
    ...(options.signed && !expect
      ? [['expected', 'the service has signed nothing with this key and origin'] as const]
      : []),
    ...views.map(({ name }) => ['view', `${name} ${comparedText(compared[name])}`] as const),
    ...(unknown > 0 ? [['unknown', `${count(unknown, 'event')} of unknown types`] as const] : []),
    ...(skipped > 0 ? [['skipped', `${count(skipped, 'event')} in SKIP_EVENTS`] as const] : []),
    ...(erased > 0 ? [['erased', `${count(erased, 'event')} (${count(records, 'record')})`] as const] : []),
    ...file.notices.map((notice) => ['notice', printable(notice)] as const),
  ];
  await write(output, options.json ? `${toJson(result)}\n` : toText([...lines, ...problemLines(result)]));
  if (result.problemCount > 0)
    throw new Error(`verification failed: ${count(result.problemCount, 'problem')}`);
}

/** The events with which the log must begin. @throws Error if they cannot be read */
async function expected({ expect, signed }: Options, { config, print }: Context) {
  if (expect !== undefined)
    return parseTreeHead(expect) ?? openOwnCheckpoint(await readCheckpointFile(expect), config, print);
  if (!signed || !config.merkleTree || !existsSync(config.logKeyFile)) return undefined;
  return new CheckpointFiles(loadExistingLogKey(config).verifierKey, config.dataDir).readSigned();
}

type Result = TreeHead & { position: bigint; problems: Problem[]; problemCount: number };
type Line = readonly [name: string, value: string];

function comparedText(view: Verification['views'][string] | undefined): string {
  if (!view) return 'none';
  return view.upTo === undefined ? 'not compared' : `compared up to position ${view.upTo}`;
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

/** Positions are strings, since few JSON parsers keep 64-bit integers; null means none. */
function toJson({ problems, ...rest }: Result): string {
  const listed = problems.map(({ position, problem }) => ({ position, problem }));
  return printableJson(
    JSON.stringify({ ...rest, problems: listed }, (_, value) =>
      typeof value === 'bigint' ? String(value) : (value ?? null),
    ),
  );
}

function count(number: number, thing: string): string {
  return `${number} ${thing}${number === 1 ? '' : 's'}`;
}
