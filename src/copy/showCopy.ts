import { Presets, SingleBar } from 'cli-progress';
import type { CopyProgress } from './copyLog.ts';

const TELL_EVERY = 2_000;

/** Shows how a copy gets on, a bar for each step on a terminal, else a line every two seconds. */
export function showCopy(
  say: (line: string) => void,
  onTerminal: boolean,
): Disposable & { show(progress: CopyProgress): void } {
  let bar: SingleBar | undefined;
  let shown: CopyProgress['step'] | undefined;
  let toldAt = Date.now();

  function onBar(step: CopyProgress['step'], events: number, done: number, total: number): void {
    if (step !== shown) {
      bar?.stop();
      // Nothing that a signal would have to undo: the process ends at once.
      bar = new SingleBar(
        {
          format: `${step} {bar} {percentage}% | {events} events | {eta} s left`,
          gracefulExit: false,
          linewrap: true,
        },
        Presets.shades_classic,
      );
      bar.start(total, done, { events });
      shown = step;
    }
    bar?.setTotal(total);
    bar?.update(done, { events });
  }

  return {
    show({ step, events, position, end }) {
      const [done, total] = [Number(position), Number(end)];
      if (onTerminal) {
        onBar(step, events, done, total);
      } else if (Date.now() - toldAt >= TELL_EVERY) {
        toldAt = Date.now();
        say(`${step}: ${events} events, ${Math.floor((100 * done) / total)} %`);
      }
    },
    [Symbol.dispose]: () => bar?.stop(),
  };
}
