import { ViewComparison } from '../../projections/viewComparison.ts';
import { type Root, type Verdict, verifyLog } from '../audit/verify.ts';
import { viewFile } from '../openStore.ts';
import { printable } from '../printable.ts';
import { showProgress } from './showProgress.ts';
import { openLogUntil, type Surroundings, write } from './surroundings.ts';

type Options = { expect?: string; json?: true };

/** Prints what the log hashes to, and what is wrong with it. @throws Error where anything is */
export async function verifyCommand(options: Options, surroundings: Surroundings): Promise<void> {
  const { config, output, say, onTerminal, signal } = surroundings;
  const expect = options.expect === undefined ? undefined : rootOf(options.expect);
  await using open = new AsyncDisposableStack();
  const log = await openLogUntil(open, surroundings, { exact: true });
  const { view, viewFault } = openView(surroundings);
  if (view) open.defer(() => view.close());
  const progress = open.use(showProgress(onTerminal ? say : () => {}, onTerminal));
  const verdict = await verifyLog({
    log,
    gapless: config.eventStoreDb === undefined,
    view,
    skip: config.skipEvents,
    expect,
    signal,
    onProgress: (done) => progress.show({ step: 'verifying', ...done }),
  });
  progress[Symbol.dispose]();
  if (viewFault !== undefined) {
    verdict.faults.unshift({ fault: viewFault });
    verdict.faultCount++;
  }
  await write(output, options.json ? `${inJson(verdict)}\n` : inWords(verdict, viewFault !== undefined));
  if (verdict.faultCount > 0)
    throw new Error(`${counted(verdict.faultCount, 'fault')}: the log or its view is not as it has to be`);
}

function rootOf(text: string): Root {
  const [, size, root = ''] = /^(\d{1,15}):([\da-fA-F]{64})$/.exec(text) ?? [];
  if (size === undefined)
    throw new Error('--expect must be SIZE:ROOT, a number of events and 64 hexadecimal digits.');
  return { size: Number(size), root };
}

function openView({ config }: Surroundings): { view?: ViewComparison; viewFault?: string } {
  try {
    const view = ViewComparison.open(viewFile(config.dataDir), config.skipEvents);
    return view ? { view } : {};
  } catch (error) {
    return { viewFault: `the view cannot be read: ${(error as Error).message}` };
  }
}

function inWords(
  { size, position, root, view, foreign, skipped, faults, faultCount }: Verdict,
  isViewDamaged: boolean,
): string {
  const none = isViewDamaged ? 'not compared' : 'there is none here';
  const lines = [
    ['size', String(size)],
    ['position', String(position)],
    ['root', root],
    ['expect', `${size}:${root}`],
    ['view', view === undefined ? none : `compared up to position ${view}`],
  ];
  if (foreign > 0) lines.push(['foreign', `${counted(foreign, 'event')} of types that are not known here`]);
  if (skipped > 0) lines.push(['skipped', `${counted(skipped, 'event')} named in SKIP_EVENTS`]);
  lines.push(['faults', faultCount === 0 ? 'none' : String(faultCount)]);
  for (const { position: at, fault } of faults)
    lines.push(['', printable(at === undefined ? fault : `position ${at}: ${fault}`)]);
  if (faultCount > faults.length) lines.push(['', `and ${faultCount - faults.length} more`]);
  return lines.map(([name = '', value]) => `${name.padEnd(8)}  ${value}\n`).join('');
}

function inJson({ position, view, faults, ...rest }: Verdict): string {
  return JSON.stringify({
    ...rest,
    position: String(position),
    view: view === undefined ? null : String(view),
    faults: faults.map(({ position: at, fault }) => ({
      position: at === undefined ? null : String(at),
      fault,
    })),
  });
}

function counted(count: number, thing: string): string {
  return `${count} ${thing}${count === 1 ? '' : 's'}`;
}
