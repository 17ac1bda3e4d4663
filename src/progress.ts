import { Presets, SingleBar } from 'cli-progress';
import type { BaseLogger } from 'pino';
import type { Progress } from '../projections/follow.ts';

/** Fewer events than this are caught up with before anyone looks. */
const WORTH_SHOWING = 10_000n;
const LOG_EVERY = 2_000;

/** Shows how the view catches up: a bar on a terminal, else a line in the log every two seconds. */
export function reportProgress(
  log: Pick<BaseLogger, 'info'>,
  onTerminal: boolean,
): (progress: Progress) => void {
  let bar: SingleBar | undefined;
  let logged = Date.now();
  return ({ from, position, end }) => {
    const done = Number(position - from);
    const total = Number(end - from);
    if (onTerminal && !bar && end - position > WORTH_SHOWING) {
      bar = new SingleBar(
        { format: 'catching up {bar} {percentage}% | {eta} s left', hideCursor: true },
        Presets.shades_classic,
      );
      bar.start(total, done);
    }
    bar?.setTotal(total);
    bar?.update(done);
    if (position >= end) {
      bar?.stop();
      bar = undefined;
      return;
    }
    if (!bar && Date.now() - logged >= LOG_EVERY) {
      logged = Date.now();
      log.info({ position: String(position), end: String(end) }, 'the view is catching up');
    }
  };
}
